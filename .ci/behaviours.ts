/**
 * Writes docs/behaviours.md: the behaviours that the role server owes its operators, and the tests that hold it to them.
 * A test carries the number of its row at the end of its title: `… (row 24)`, `… (rows 24, 25)`.
 * `node .ci/behaviours.ts` writes; with `--check` it fails when the page is not what the tests say, when a title names a
 * row that does not exist, or when a row without a test is not admitted to be open in docs/behaviours.json.
 */
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeCell, publishPage } from './page.ts';

interface Row {
  readonly behaviour: string;
  /** Where ours differs by intent from the behaviour as first written down. */
  readonly difference?: string;
  /** Why no test carries it; such a row is open or belongs to later. */
  readonly open?: string;
}

interface TaggedTest {
  readonly source: string;
  readonly title: string;
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const ROWS = 'docs/behaviours.json';
const PAGE = 'docs/behaviours.md';
const TESTS = '{cli,bootstrapper,joinservice,internal,e2e}/**/*.ts';
const TAG = /(['"`])((?:(?!\1).)+) \(rows? (\d+(?:, \d+)*)\)\1/g;

/** Every tagged title of one file, by row. */
export function taggedTitles(text: string): readonly { readonly row: string; readonly title: string }[] {
  return [...text.matchAll(TAG)].flatMap(([, , title = '', rows = '']) =>
    rows.split(', ').map((row) => ({ row, title })),
  );
}

export function renderPage(
  rows: Readonly<Record<string, Row>>,
  tests: ReadonlyMap<string, readonly TaggedTest[]>,
): { readonly page: string; readonly problems: readonly string[] } {
  const problems = [...tests.keys()]
    .filter((row) => !(row in rows))
    .map((row) => `a test carries row ${row}, which ${ROWS} does not have`);
  const lines = Object.entries(rows).map(([number, row]) => {
    const held = tests.get(number) ?? [];
    if (held.length === 0 && row.open === undefined) problems.push(`row ${number} has no test and no "open"`);
    if (held.length > 0 && row.open !== undefined)
      problems.push(`row ${number} is called open and has a test`);
    const tested = held.map(({ source, title }) => `\`${source}\`: ${escapeCell(title)}`).join('<br>');
    const what = row.difference === undefined ? row.behaviour : `${row.behaviour} *Ours: ${row.difference}*`;
    return `| ${number} | ${escapeCell(what)} | ${tested === '' ? `**open**: ${escapeCell(row.open ?? '')}` : tested} |`;
  });
  const open = Object.values(rows).filter(({ open }) => open !== undefined).length;
  const intro = `# Behaviours of a node's life

Each row is a promise to operators; each test named here turns red when it is broken. Made by
\`node .ci/behaviours.ts\` from \`${ROWS}\` and the titles of the tests; checked by the gate.
${Object.keys(rows).length} rows, ${open} open.

| # | behaviour | test |
|---|---|---|
`;
  return { page: `${intro}${lines.join('\n')}\n`, problems };
}

function collect(): ReadonlyMap<string, readonly TaggedTest[]> {
  const found = new Map<string, TaggedTest[]>();
  for (const source of globSync(TESTS, { cwd: ROOT }).sort()) {
    if (!/\.i?test\.ts$/.test(source) && !source.startsWith('e2e/')) continue;
    for (const { row, title } of taggedTitles(readFileSync(resolve(ROOT, source), 'utf8')))
      found.set(row, [...(found.get(row) ?? []), { source, title }]);
  }
  return found;
}

if (import.meta.main) {
  const rows = JSON.parse(readFileSync(resolve(ROOT, ROWS), 'utf8')) as Readonly<Record<string, Row>>;
  const made = renderPage(rows, collect());
  publishPage({ root: ROOT, path: PAGE, ...made, command: 'node .ci/behaviours.ts' });
}
