import { styleText } from 'node:util';
import { printableJson } from '../../internal/printable/index.ts';
import type { ErrorReport } from './app-host.ts';
import type { OutputStream } from './streams.ts';

export type Style = 'red' | 'green' | 'yellow' | 'dim' | 'bold';
export type Paint = (style: Style, text: string) => string;

/** Colour on a terminal only, and never where NO_COLOR is set (no-color.org) or the terminal is dumb. */
export function createPaint(stream: OutputStream, env: Readonly<Record<string, string | undefined>>): Paint {
  const wanted = stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  return wanted ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/** An error as a person reads it: what, what to do, whether again, where to read more. */
export function renderError(report: ErrorReport, verbose: boolean, paint: Paint): string {
  // No line of a message may look like one of ours.
  const lines = [`${paint('red', 'error:')} ${indentRest(report.message, 2)}`];
  if (report.fix !== '') lines.push(`  ${paint('bold', 'fix:')}   ${indentRest(report.fix, 9)}`);
  lines.push(`  ${paint('bold', 'again:')} ${againText(report)}`);
  lines.push(
    `  ${paint('bold', 'code:')}  ${report.code} ${paint('dim', `(cluster help errors ${report.code})`)}`,
  );
  if (verbose && Object.keys(report.details).length > 0)
    lines.push(`  details: ${printableJson(JSON.stringify(report.details))}`);
  if (verbose && report.stack !== undefined) lines.push(paint('dim', report.stack));
  return lines.join('\n');
}

function againText(report: ErrorReport): string {
  if (report.exit === 'needsReset') return 'not before the machine was reset';
  return report.retryable
    ? 'the same command is safe to repeat and goes on from here'
    : 'the same command would fail again until the cause is gone';
}

function indentRest(text: string, columns: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(columns)}`);
}
