import { createHash } from 'node:crypto';
import { html, Html, type Content } from './html.ts';
import { STYLE } from './style.ts';

/** A page in one file, without anything from elsewhere. */
export interface DocumentOptions {
  readonly title: string;
  readonly body: Content;
  /** The only script of the page; default: none. It must be a constant of this program. */
  readonly script?: string | undefined;
}

/**
 * The policy of a page (Content Security Policy, level 3): nothing from elsewhere, and no script or style but those of this program,
 * named by their hash. The second line of defense if a text of others ever became markup.
 */
export function contentPolicy({ script }: Pick<DocumentOptions, 'script'>): string {
  return [
    "default-src 'none'",
    `style-src '${hashOf(STYLE)}'`,
    ...(script === undefined ? [] : [`script-src '${hashOf(script)}'`, "connect-src 'self'"]),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/** The text of a page. */
export function renderDocument({ title, body, script }: DocumentOptions): string {
  // Made without a template: a formatter may change the blanks of a template, and then the hashes would be wrong.
  const style = new Html(`<style>${STYLE}</style>`);
  const code = script === undefined ? undefined : new Html(`<script>${script}</script>`);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="referrer" content="no-referrer" />
        <meta http-equiv="Content-Security-Policy" content="${contentPolicy({ script })}" />
        <title>${title}</title>
        ${style}
      </head>
      <body>
        ${body} ${code}
      </body>
    </html> `.text;
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}`;
}
