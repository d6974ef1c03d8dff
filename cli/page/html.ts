import { printable } from '../../internal/printable/index.ts';

/** Longer texts are cut. */
const MAX_CHARS = 20_000;
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Markup that is safe to put into a page. Only `html` makes it. */
export class Html {
  readonly text: string;

  /** Use `html`. @param text markup in which every text of others is escaped */
  constructor(text: string) {
    this.text = text;
  }
}

/** What a template may contain: texts are escaped, markup is not; nothing and `undefined` are left out. */
export type Content = string | number | Html | undefined | readonly Content[];

/**
 * Markup from a template. Every text in it is escaped, and freed of characters that control or reorder text, so that no text of a node
 * can become markup. Values of attributes must stand in double quotes in the template.
 */
export function html(template: TemplateStringsArray, ...contents: readonly Content[]): Html {
  return new Html(template.map((part, index) => part + textOf(contents[index])).join(''));
}

function textOf(content: Content): string {
  if (content === undefined) return '';
  if (content instanceof Html) return content.text;
  if (typeof content === 'string') return escape(content);
  return typeof content === 'number' ? String(content) : content.map(textOf).join('');
}

function escape(text: string): string {
  return printable(text, { maxChars: MAX_CHARS }).replace(
    /[&<>"']/g,
    (character) => ENTITIES[character] ?? '',
  );
}
