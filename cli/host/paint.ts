import { styleText } from 'node:util';
import { printableJson } from '../../internal/printable/index.ts';
import type { ErrorReport, OutputStream } from './host.ts';
import type { Style } from './screen-port.ts';

/** Styles a text, or returns it unchanged if colors are off. */
export type Paint = (style: Style, text: string) => string;

/** Colors on a terminal only, unless NO_COLOR is set (no-color.org) or the terminal is dumb. */
export function createPaint(stream: OutputStream, env: Readonly<Record<string, string | undefined>>): Paint {
  const wanted = stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  return wanted ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/** An error for people: what failed, how to fix it, whether a retry helps, and its code. */
export function renderError(report: ErrorReport, verbose: boolean, paint: Paint): string {
  // Further lines are indented, so that no text of a message looks like a line of this program.
  const lines = [`${paint('red', 'error:')} ${indentRest(report.message, 2)}`];
  if (report.fix !== '') lines.push(`  ${paint('bold', 'fix:')}       ${indentRest(report.fix, 13)}`);
  lines.push(`  ${paint('bold', 'retryable:')} ${retryText(report)}`);
  lines.push(
    `  ${paint('bold', 'code:')}      ${report.code} ${paint('dim', `(cluster help errors ${report.code})`)}`,
  );
  if (verbose && Object.keys(report.details).length > 0)
    lines.push(`  details:   ${printableJson(JSON.stringify(report.details))}`);
  if (verbose && report.stack !== undefined) lines.push(paint('dim', indentRest(report.stack, 2)));
  return lines.join('\n');
}

function retryText({ exit, retryable }: ErrorReport): string {
  if (exit === 'needsReset') return 'no; reset the machine first';
  return retryable ? 'yes' : 'no';
}

function indentRest(text: string, columns: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(columns)}`);
}
