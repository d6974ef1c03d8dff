/**
 * Refuses a claim of docs/threat-model.md, or a rule of docs/decisions/owner-documents.md, whose test does not exist or has not
 * turned red under a mutation. In each table with a column "test", a row names tests as paths in backticks, each one or several
 * titles in “quotes”; or the same tests as the row above ("the same"). A row without a test says in its last column what is open.
 * Stories on machines take minutes and need no mutation. `node .ci/threat-model.ts`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isShown, type Catalog, type Results } from './mutations/rows.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGES = ['docs/threat-model.md', 'docs/decisions/owner-documents.md'];
/** The first cell of the heading of a table in which each row needs a test. */
const CLAIMS = /^(?:claim|attack$|what is tried|rule)/;
const TEST_FILE = /`([\w./-]+\.(?:test|itest|story)\.ts)`((?:,? “[^”]+”)*)/g;

/** What claims are compared with. */
export interface Tests {
  /** The text of a file of the repository; undefined if there is no such file. */
  read(path: string): string | undefined;
  /** Whether a mutation turned a test red; without a title, any test of the file. */
  isShown(test: { readonly file: string; readonly title: string | undefined }): boolean;
}

/** The rows of a page that name no test, one that does not exist, or one that no mutation turned red. */
export function findUntested(page: string, text: string, tests: Tests): readonly string[] {
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
        ...named.flatMap((test) => problemsOf(test, tests)).map((what) => `${page}: "${row}": ${what}`),
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

/** What is wrong with the tests that a claim names: the file or a title does not exist, or no mutation turned it red. */
function problemsOf([, file = '', quoted = '']: RegExpExecArray, tests: Tests): readonly string[] {
  const code = tests.read(file);
  if (code === undefined) return [`${file} does not exist`];
  const titles = [...quoted.matchAll(/“([^”]+)”/g)].map(([, title = '']) => title);
  const absent = titles.filter((title) => !hasTitle(code, title));
  const named = titles.length === 0 ? [undefined] : titles.filter((title) => !absent.includes(title));
  const unproved = file.endsWith('.story.ts') ? [] : named.filter((title) => !tests.isShown({ file, title }));
  return [
    ...absent.map((title) => `${file} has no test "${title}"`),
    ...unproved.map((title) => `no mutation turned ${file}${title === undefined ? '' : ` "${title}"`} red`),
  ];
}

function hasTitle(code: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) =>
    code.includes(`${quote}${title.replaceAll(quote, `\\${quote}`)}${quote}`),
  );
}

if (import.meta.main) {
  const read = (path: string): string => readFileSync(resolve(ROOT, path), 'utf8');
  const { mutations } = JSON.parse(read('docs/mutations.json')) as Catalog;
  const results = JSON.parse(read('docs/mutation-results.json')) as Results;
  const red = mutations.filter(({ name }) => results[name] !== undefined);
  const tests: Tests = {
    read: (path) => (existsSync(resolve(ROOT, path)) ? read(path) : undefined),
    isShown: (test) => isShown(red, test),
  };
  const problems = PAGES.flatMap((page) => findUntested(page, read(page), tests));
  for (const line of problems) process.stderr.write(`${line}\n`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
