/**
 * Shows that the tests named in docs/refused-cases.json and docs/behaviours.json fail when the check they stand for is removed.
 * `docs/mutations.json` lists mutations: a file, a text in it that occurs once, its replacement, and the tests that must turn
 * red. `npm run mutations` applies each one to a copy of the tree and runs these tests. What turned red is written to
 * docs/mutation-results.json with hashes of the mutated code and of the test's code, and docs/mutations.md is written.
 *
 *     npm run mutations              those without a current result
 *     npm run mutations -- --all     all of them; `-- TEXT` those whose name or file has the text
 *     node .ci/mutations.ts --check  for the gate: runs no test; fails when a row has no mutation, or a mutation no current result
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runMutations } from './mutations/run-mutations.ts';
import {
  hashOf,
  judge,
  renderPage,
  rowsOf,
  type Catalog,
  type Mutation,
  type Results,
} from './mutations/rows.ts';
import { publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const RESULTS = 'docs/mutation-results.json';

const read = (path: string): string => readFileSync(resolve(ROOT, path), 'utf8');

async function main(args: readonly string[]): Promise<void> {
  const catalog = JSON.parse(read('docs/mutations.json')) as Catalog;
  const rows = rowsOf(JSON.parse(read('docs/behaviours.json')), JSON.parse(read('docs/refused-cases.json')));
  let results = JSON.parse(read(RESULTS)) as Results;
  if (!args.includes('--check')) {
    for await (const { mutation, verdict } of runMutations(ROOT, chosen(catalog, results, args))) {
      const { name, file, test } = mutation;
      process.stdout.write(verdict.isRed ? `red    ${name}\n` : `GREEN  ${name}: ${verdict.why}\n`);
      const { [name]: _old, ...others } = results;
      const now = { check: hashOf(read(file)), test: hashOf(read(test)) };
      results = verdict.isRed ? { ...others, [name]: now } : others;
      save(catalog, results); // after each one: an interrupted run continues where it ended
    }
  }
  publishPage({
    root: ROOT,
    path: 'docs/mutations.md',
    page: renderPage(catalog, rows.length),
    problems: judge({ catalog, results, rows, read }),
    command: 'npm run mutations',
  });
}

/** The mutations to run. */
function chosen({ mutations }: Catalog, results: Results, args: readonly string[]): readonly Mutation[] {
  if (args.includes('--all')) return mutations;
  if (args.length > 0)
    return mutations.filter(({ name, file, test }) =>
      args.some((text) => [name, file, test].some((each) => each.includes(text))),
    );
  return mutations.filter(({ name, file, test }) => {
    const result = results[name];
    return result?.check !== hashOf(read(file)) || result.test !== hashOf(read(test));
  });
}

/** Writes the results in the order of the list, without those of mutations that are not in it any more. */
function save({ mutations }: Catalog, results: Results): void {
  const known = mutations.flatMap(({ name }) => {
    const result = results[name];
    return result === undefined ? [] : [[name, result] as const];
  });
  writeFileSync(resolve(ROOT, RESULTS), `${JSON.stringify(Object.fromEntries(known), undefined, 2)}\n`);
}

await main(process.argv.slice(2));
