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
