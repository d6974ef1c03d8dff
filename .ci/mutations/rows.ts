import { createHash } from 'node:crypto';
import { transformSync } from 'esbuild';
import { escapeCell } from '../page.ts';

/** A change of the code that removes or breaks one check, and the tests that must turn red. */
export interface Mutation {
  /** What the mutated code does wrong. Unique. */
  readonly name: string;
  /** Paths from the root of the repository. */
  readonly file: string;
  readonly test: string;
  /** Occurs once in the file. */
  readonly find: string;
  readonly replace: string;
  /** Titles of tests in `test`, or a part of them. At least one test of each title fails. */
  readonly red: readonly string[];
  /** The compiler refuses the test, which itself would pass: types do not exist at run time. */
  readonly by?: 'types';
}

/** The content of docs/mutations.json. */
export interface Catalog {
  readonly mutations: readonly Mutation[];
}

/** Hashes of the mutated file and of the test's file, by the name of a mutation that turned its tests red. */
export type Results = Readonly<Record<string, { readonly check: string; readonly test: string }>>;

/** A row of docs/behaviours.json or docs/refused-cases.json. */
export interface Row {
  /** "behaviour 17", or "refused: SECTION / CASE". */
  readonly name: string;
  readonly tests: readonly { readonly file: string; readonly title: string }[];
}

interface Behaviours {
  readonly [number: string]: { readonly tests?: Row['tests'] };
}

interface RefusedCases {
  readonly files: Readonly<Record<string, string>>;
  readonly sections: readonly {
    readonly title: string;
    readonly cases: readonly { readonly case: string; readonly refused?: readonly (readonly string[])[] }[];
  }[];
}

/** All rows that name a test. */
export function rowsOf(behaviours: unknown, refused: unknown): readonly Row[] {
  const { files, sections } = refused as RefusedCases;
  const promised = Object.entries(behaviours as Behaviours).map(([number, { tests = [] }]) => ({
    name: `behaviour ${number}`,
    tests,
  }));
  const cases = sections.flatMap(({ title: section, cases }) =>
    cases.map(({ case: what, refused = [] }) => ({
      name: `refused: ${section} / ${what}`,
      tests: refused.map(([alias = '', title = '']) => ({ file: files[alias] ?? alias, title })),
    })),
  );
  return [...promised, ...cases].filter(({ tests }) => tests.length > 0);
}

/** A hash of the code alone: comments, types and layout do not change it. */
export function hashOf(text: string): string {
  const { code } = transformSync(text, {
    loader: 'ts',
    minifyWhitespace: true,
    legalComments: 'none',
    target: 'esnext',
    tsconfigRaw: '{"compilerOptions":{"verbatimModuleSyntax":true}}',
  });
  return createHash('sha256').update(code).digest('hex').slice(0, 16);
}

/** A regular expression for the titles of a test; a title may be that of a table, with placeholders. */
export function patternOf(title: string): string {
  return title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll(/\\\$\w+|%[sdij]/g, '.*');
}

/** Whether one of the mutations turns a test red; without a title, any test of the file. */
export function isShown(
  mutations: readonly Mutation[],
  { file, title }: { readonly file: string; readonly title?: string | undefined },
): boolean {
  const whole = new RegExp(title === undefined ? '' : `^(?:${patternOf(title)})$`);
  return mutations.some(({ test, red }) => test === file && red.some((each) => whole.test(each)));
}

/** The rows that a mutation shows. */
function coveredBy(mutations: readonly Mutation[], rows: readonly Row[]): ReadonlySet<string> {
  const covered = rows.filter(({ tests }) => tests.some((test) => isShown(mutations, test)));
  return new Set(covered.map(({ name }) => name));
}

/**
 * The problems of the list and of its results. @param read the text of a file of the repository
 */
export function judge(given: {
  readonly catalog: Catalog;
  readonly results: Results;
  readonly rows: readonly Row[];
  readonly read: (path: string) => string;
}): readonly string[] {
  const { catalog, results, rows, read } = given;
  const { mutations } = catalog;
  const covered = coveredBy(mutations, rows);
  const names = mutations.map(({ name }) => name);
  return [
    ...names
      .filter((name, at) => names.indexOf(name) !== at)
      .map((name) => `two mutations are called "${name}"`),
    ...mutations.flatMap((mutation) => problemsOf(mutation, results, read)),
    ...rows
      .filter(({ name }) => !covered.has(name))
      .map(({ name }) => `${name}: no mutation shows that its test fails without the check`),
  ];
}

function problemsOf(
  { name, file, test, find }: Mutation,
  results: Results,
  read: (path: string) => string,
): readonly string[] {
  const text = read(file);
  if (text.split(find).length !== 2) return [`${name}: its text must occur once in ${file}`];
  const result = results[name];
  if (result === undefined) return [`${name}: has not turned its test red yet`];
  const stale = [
    ...(result.check === hashOf(text) ? [] : [file]),
    ...(result.test === hashOf(read(test)) ? [] : [test]),
  ];
  return stale.length === 0 ? [] : [`${name}: ${stale.join(' and ')} changed since its result`];
}

/** The page with all mutations. @param rowCount the number of rows that have one */
export function renderPage({ mutations }: Catalog, rowCount: number): string {
  const table = mutations
    .map(({ name, file, test, red }) =>
      [name, `\`${file}\``, `\`${test}\`: ${red.join('<br>')}`].map(escapeCell).join(' | '),
    )
    .map((cells) => `| ${cells} |\n`)
    .join('');
  return `# Tests that fail when their check is removed

Each mutation below was applied, and the named tests turned red. Made by \`npm run mutations\` from
\`docs/mutations.json\`; the gate refuses a row of [behaviours](behaviours.md) or [refused cases](refused-cases.md) without a
mutation, and a mutation without a result for the current code. All ${rowCount} rows with a test have one.

| the mutated code | mutated file | tests that turned red |
|---|---|---|
${table}`;
}
