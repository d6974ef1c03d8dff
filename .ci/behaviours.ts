/**
 * Writes docs/behaviours.md: the behaviour of nodes that operators can rely on, and the tests that prove it.
 * docs/behaviours.json maps each row to its tests. `node .ci/behaviours.ts` writes the page; with `--check` it fails when the
 * page is stale, when a named test does not exist, or when a row has neither a test nor a reason why it is open.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeCell, publishPage } from './page.ts';

interface Row {
  readonly behaviour: string;
  /** How the behaviour differs on purpose from the one that was first specified. */
  readonly difference?: string;
  /** Why no test covers the behaviour. Such a row is open, or belongs to a later version. */
  readonly open?: string;
  /** The tests that fail when the behaviour is broken. */
  readonly tests?: readonly NamedTest[];
}

interface NamedTest {
  /** Path from the root of the repository. */
  readonly file: string;
  readonly title: string;
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const ROWS = 'docs/behaviours.json';
const PAGE = 'docs/behaviours.md';

/**
 * The text of the page, and the problems of the rows. @param hasTest whether the file has a test with this
 * title.
 */
export function renderPage(
  rows: Readonly<Record<string, Row>>,
  hasTest: (test: NamedTest) => boolean,
): { readonly page: string; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const lines = Object.entries(rows).map(([number, row]) => {
    const tests = row.tests ?? [];
    if (tests.length === 0 && row.open === undefined)
      problems.push(`row ${number} has no test and no "open"`);
    if (tests.length > 0 && row.open !== undefined)
      problems.push(`row ${number} is called open and has a test`);
    problems.push(
      ...tests
        .filter((test) => !hasTest(test))
        .map(({ file, title }) => `row ${number}: ${file} has no test "${title}"`),
    );
    const tested = tests.map(({ file, title }) => `\`${file}\`: ${escapeCell(title)}`).join('<br>');
    const what =
      row.difference === undefined ? row.behaviour : `${row.behaviour} *Difference: ${row.difference}*`;
    return `| ${number} | ${escapeCell(what)} | ${tested === '' ? `**open**: ${escapeCell(row.open ?? '')}` : tested} |`;
  });
  const open = Object.values(rows).filter(({ open }) => open !== undefined).length;
  const intro = `# Behaviour of nodes

Each row is something that operators can rely on, with the tests that fail if it is broken. *Difference* names an intended
difference from the behaviour that was first specified. \`node .ci/behaviours.ts\` writes this page from
\`${ROWS}\`; the gate checks it.
${Object.keys(rows).length} rows, ${open} open.

| # | behaviour | test |
|---|---|---|
`;
  return { page: `${intro}${lines.join('\n')}\n`, problems };
}

/** Whether the title occurs in the file as a complete string. */
function hasTest({ file, title }: NamedTest): boolean {
  const path = resolve(ROOT, file);
  if (!existsSync(path)) return false;
  const text = readFileSync(path, 'utf8');
  return ["'", '"', '`'].some((quote) =>
    text.includes(`${quote}${title.replaceAll(quote, `\\${quote}`)}${quote}`),
  );
}

if (import.meta.main) {
  const rows = JSON.parse(readFileSync(resolve(ROOT, ROWS), 'utf8')) as Readonly<Record<string, Row>>;
  publishPage({ root: ROOT, path: PAGE, ...renderPage(rows, hasTest), command: 'node .ci/behaviours.ts' });
}
