import { printable } from '../../../internal/printable/index.ts';
import type { ScreenLine, Span } from '../../host/index.ts';
import type { Tone } from '../model/node-row.ts';

/** East Asian wide characters and emoji (Unicode UAX 11), which take two cells. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /^[\p{Mn}\p{Me}]/u;
const ASCII = /^[\x20-\x7e]*$/;

/** How many cells of a terminal a printable text takes. */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += cellsOf(character);
  return width;
}

function cellsOf(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** The text in exactly `width` cells, with an ellipsis if it is longer. Texts of others stay on their line. */
export function fit(text: string, width: number): string {
  const safe = printable(text, { maxChars: Math.max(0, width) * 4 + 8 });
  const own = widthOf(safe);
  if (own <= width) return safe + ' '.repeat(width - own);
  if (width <= 1) return '…'.slice(0, Math.max(0, width));
  let cut = '';
  let used = 0;
  for (const character of safe) {
    const cells = cellsOf(character);
    if (used + cells > width - 1) break;
    cut += character;
    used += cells;
  }
  return `${cut}…${' '.repeat(width - 1 - used)}`;
}

/** The style of each tone. */
export const STYLES: Readonly<Record<Tone, Span['style']>> = {
  good: 'green',
  warning: 'yellow',
  bad: 'red',
  idle: 'dim',
};

/** A cell of a table row: its text, and its style unless that is the default one. */
export type Cell = string | Span;

/** A column of a table: its title and width in cells. */
export interface Column {
  readonly title: string;
  readonly width: number;
}

/** A row in columns, separated by two blanks. */
export function row(columns: readonly Column[], cells: readonly Cell[], isChosen = false): ScreenLine {
  const spans = columns.map(({ width }, index): Span => {
    const cell = cells[index] ?? '';
    const { text, style } = typeof cell === 'string' ? { text: cell, style: undefined } : cell;
    const end = index === columns.length - 1 ? '' : '  ';
    return { text: `${fit(text, width)}${end}`, style };
  });
  return isChosen ? [{ text: spans.map(({ text }) => text).join(''), style: 'chosen' }] : spans;
}

/** The titles of columns. */
export function header(columns: readonly Column[]): ScreenLine {
  return row(
    columns,
    columns.map(({ title }) => ({ text: title, style: 'bold' })),
  );
}

/** Columns whose widths fill the line: the column with width 0 gets what the others leave. */
export function fill(columns: readonly Column[], total: number): readonly Column[] {
  const fixed = columns.reduce((sum, { width }) => sum + width, 0) + 2 * (columns.length - 1);
  return columns.map((each) => (each.width === 0 ? { ...each, width: Math.max(1, total - fixed) } : each));
}

/** One line of plain text. */
export function textLine(text: string, style?: Span['style']): ScreenLine {
  return [{ text, style }];
}

/** A bar of `width` cells, filled to a share of 0 to 1. */
export function bar(share: number, width: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * width);
  return '█'.repeat(filled) + '░'.repeat(width - filled);
}

/** A line in exactly `width` cells. */
export function fitLine(line: ScreenLine, width: number): ScreenLine {
  const spans: Span[] = [];
  let left = width;
  for (const { text, style } of line) {
    if (left <= 0) break;
    const own = widthOf(text);
    const shown = own <= left ? text : fit(text, left);
    spans.push({ text: shown, style });
    left -= Math.min(own, left);
  }
  return left > 0 ? [...spans, { text: ' '.repeat(left) }] : spans;
}

/** The part of a list that fits into `rows`, so that the row at `cursor` is in it. */
export function windowOf<T>(
  items: readonly T[],
  cursor: number,
  rows: number,
): { readonly shown: readonly T[]; readonly first: number } {
  const first = Math.max(0, Math.min(items.length - rows, cursor - Math.floor(rows / 2)));
  return { shown: items.slice(first, first + rows), first };
}
