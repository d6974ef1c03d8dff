import { formatBytes, printable } from '../../internal/printable/index.ts';

/** A share as text: "93.1 MiB of 311.0 MiB, 30%" or "3 of 12". */
export function formatShare(done: {
  readonly of: number;
  readonly value: number;
  readonly unit: 'bytes' | 'steps';
}): string {
  if (done.unit === 'steps') return `${done.value} of ${done.of}`;
  const percent = done.of === 0 ? 100 : Math.floor((done.value / done.of) * 100);
  return `${formatBytes(done.value)} of ${formatBytes(done.of)}, ${percent}%`;
}

/**
 * One row per object, columns separated by two spaces, no trailing blanks. Each cell is made safe for a terminal and stays in its
 * row, so that no text of a node, a pod or a chart can pose as a row of its own.
 */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows].map((row) => row.map((cell) => printable(cell, { maxChars: Infinity })));
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** One line for each field: its label, padded to the longest label, then its text. */
export function formatFields(fields: readonly (readonly [label: string, text: string])[]): string {
  const [first, ...others] = fields;
  return first === undefined ? '' : formatTable(first, others);
}
