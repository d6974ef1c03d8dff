/**
 * Refuses a claim of docs/threat-model.md, or a rule of docs/decisions/owner-documents.md, whose test does not exist. In each
 * table with a column "test", a row names tests as paths in backticks, each one or several titles in “quotes”; or the same
 * tests as the row above ("the same"). A row without a test says in its last column what is open. `node .ci/threat-model.ts`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGES = ['docs/threat-model.md', 'docs/decisions/owner-documents.md'];
/** The first cell of the heading of a table in which each row needs a test. */
const CLAIMS = /^(?:claim|attack$|what is tried|rule)/;
const TEST_FILE = /`([\w./-]+\.(?:test|itest|story)\.ts)`((?:,? “[^”]+”)*)/g;

/**
 * The rows of a page that name no test, or one that does not exist. @param read the text of a file of the repository; undefined
 * if there is no such file
 */
export function findUntested(
  page: string,
  text: string,
  read: (path: string) => string | undefined,
): readonly string[] {
  const problems: string[] = [];
  /** The column with the tests in the table that is read: -1 if it has none, undefined outside of tables. */
  let column: number | undefined;
  let above: readonly string[] = [];
  for (const cells of text.split('\n').map(cellsOf)) {
    const [row = ''] = cells ?? [];
    if (cells === undefined) column = undefined;
    else if (column === undefined) {
      column = cells.findIndex((cell) => cell.startsWith('test'));
      above = [];
      if (column < 0 && CLAIMS.test(row)) problems.push(`${page}: a table of "${row}" has no column "test"`);
    } else if (column >= 0 && !/^-+$/.test(row)) {
      const named = [...(cells[column] ?? '').matchAll(TEST_FILE)];
      const files = named.map(([, file = '']) => file);
      above = cells[column]?.startsWith('the same') === true ? [...above, ...files] : files;
      const isOpen = column < cells.length - 1 && cells.at(-1) !== '';
      if (above.length === 0 && !isOpen)
        problems.push(`${page}: "${row}" names no test, and says nothing open`);
      problems.push(
        ...named.flatMap((test) => missingFrom(test, read)).map((what) => `${page}: "${row}": ${what}`),
      );
    }
  }
  return problems;
}

/** The cells of a row of a table; undefined for another line. */
function cellsOf(line: string): readonly string[] | undefined {
  if (!line.startsWith('|')) return undefined;
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** What does not exist of a named test: its file, or a title in it. */
function missingFrom(
  [, file = '', titles = '']: RegExpExecArray,
  read: (path: string) => string | undefined,
): readonly string[] {
  const code = read(file);
  if (code === undefined) return [`${file} does not exist`];
  return [...titles.matchAll(/“([^”]+)”/g)]
    .map(([, title = '']) => title)
    .filter(
      (title) =>
        !["'", '"', '`'].some((quote) =>
          code.includes(`${quote}${title.replaceAll(quote, `\\${quote}`)}${quote}`),
        ),
    )
    .map((title) => `${file} has no test "${title}"`);
}

if (import.meta.main) {
  const problems = PAGES.flatMap((page) =>
    findUntested(page, readFileSync(resolve(ROOT, page), 'utf8'), (path) => {
      const file = resolve(ROOT, path);
      return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
    }),
  );
  for (const line of problems) process.stderr.write(`${line}\n`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
