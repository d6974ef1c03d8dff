import { printable } from '../../internal/printable/index.ts';
import { formatTable } from './format.ts';

/** A list of objects, which each output format shows in its own way. */
export interface Listing<T> {
  /** The result for programs: an object, so that it can get more fields later. Never the list itself. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly items: readonly T[];
  readonly columns: readonly Column<T>[];
  /** The word that other commands accept for an object; `-o name` prints one a line. */
  readonly nameOf: (item: T) => string;
  /** For people, instead of a table without rows. */
  readonly empty?: string;
  /** The last row for people, such as a total; one text a column. */
  readonly footer?: readonly string[];
  /** Show the wide columns in every format for people. */
  readonly wide?: boolean;
}

/** A column of a table. */
export interface Column<T> {
  readonly title: string;
  readonly textOf: (item: T) => string;
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
}

/** How a list is shown to people. */
export interface ListingStyle {
  readonly format: 'table' | 'wide' | 'name';
  readonly headers: boolean;
}

/** The list as text. Without headers an empty list is an empty text, so that programs can count lines. */
export function renderListing<T>(listing: Listing<T>, { format, headers }: ListingStyle): string {
  const { items, columns, nameOf, empty, footer } = listing;
  if (format === 'name')
    return items.map((item) => printable(nameOf(item), { maxChars: Infinity })).join('\n');
  if (items.length === 0 && (!headers || empty !== undefined)) return headers ? (empty ?? '') : '';
  const isWide = format === 'wide' || listing.wide === true;
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const rows = items.map((item) => shown.map(({ textOf }) => textOf(item)));
  const table = formatTable(
    shown.map(({ title }) => title),
    footer === undefined || !headers ? rows : [...rows, footer],
  );
  return headers ? table : table.slice(table.indexOf('\n') + 1);
}
