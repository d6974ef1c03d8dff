import { formatBytes, printable } from '../../internal/printable/index.ts';

/** The share of a step that is finished. Unless the unit is `steps`, hosts also estimate the time left. */
export interface StepShare {
  readonly of: number;
  readonly value: number;
  /** `steps` take different times, so hosts estimate no time left for them. */
  readonly unit: 'bytes' | 'packages' | 'steps';
}

/** A share as text: "93.1 MiB of 311.0 MiB", "3 of 12" or "12 of 900 packages". */
export function formatShare({ of, value, unit }: StepShare): string {
  if (unit === 'bytes') return `${formatBytes(value)} of ${formatBytes(of)}`;
  return `${value} of ${of}${unit === 'steps' ? '' : ` ${unit}`}`;
}

/** Columns of help: those of a terminal that nobody widened. */
export const TEXT_WIDTH = 80;

/** Breaks a text between words into lines of at most `width` characters. A longer word stays whole. */
export function wrapWords(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter((each) => each !== '')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/**
 * One row per object, columns separated by two spaces, no trailing blanks. Each cell is made safe for a terminal and stays in its
 * row, so that no text of a node, a pod or a chart can pose as a row of its own.
 * @param width wraps the last column, so that the table has at most this many columns of characters
 */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  width = Infinity,
): string {
  const all = [header, ...rows].map((row) => row.map((cell) => printable(cell, { maxChars: Infinity })));
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + 2, 0);
  return all
    .flatMap((row) => (width === Infinity ? [row] : wrappedRow(row, width - before)))
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** A row, and a row for each further line of its last cell. */
function wrappedRow(row: readonly string[], width: number): readonly (readonly string[])[] {
  const [first = '', ...further] = wrapWords(row.at(-1) ?? '', width);
  const blank = row.slice(0, -1).map(() => '');
  return [[...row.slice(0, -1), first], ...further.map((line) => [...blank, line])];
}

/** One line for each field: its label, padded to the longest label, then its text. */
export function formatFields(fields: readonly (readonly [label: string, text: string])[]): string {
  const [first, ...others] = fields;
  return first === undefined ? '' : formatTable(first, others);
}
