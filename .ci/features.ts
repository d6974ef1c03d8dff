/**
 * Writes docs/features.md: the features that work, work in part or are missing, from docs/features.json.
 * `node .ci/features.ts` writes the page; `--check` fails when it is stale, when a named test or page does
 * not exist, or when a working feature names no test.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeCell, publishPage } from './page.ts';

const STATES = { works: 'works', partial: 'in part', missing: '**no**' } as const;

/** One row of docs/features.json. */
export interface Feature {
  readonly feature: string;
  readonly state: keyof typeof STATES;
  /** What is limited or missing. */
  readonly note?: string;
  /** The page below docs/ that describes the feature. */
  readonly docs?: string;
  /** Tests that fail without the feature, or directories of such tests. */
  readonly proof: readonly string[];
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = 'docs/features.json';
const PAGE = 'docs/features.md';
const HEAD = `# What works and what does not

Written by \`node .ci/features.ts\` from \`docs/features.json\`, which also names the tests of each feature.

| feature | works | details |
|---|---|---|
`;

/** The problems of the feature list. */
export function findProblems(
  features: readonly Feature[],
  exists: (path: string) => boolean,
): readonly string[] {
  return features.flatMap(({ feature, state, note, docs, proof }) => [
    ...(state === 'works' && proof.length === 0 ? [`${feature}: works, and names no test`] : []),
    ...(state === 'partial' && note === undefined
      ? [`${feature}: works in part, and does not say which`]
      : []),
    ...[...proof, ...(docs === undefined ? [] : [docs])]
      .filter((path) => !exists(path))
      .map((path) => `${feature}: ${path} does not exist`),
  ]);
}

/** The page: one row for each feature. */
export function featuresPage(features: readonly Feature[]): string {
  const rows = features.map(({ feature, state, note, docs }) => {
    const name = docs?.replace(/^docs\//, '');
    const about = [note, name === undefined ? undefined : `[${name}](${name})`];
    const detail = about.filter((part) => part !== undefined).join('; ');
    return `| ${escapeCell(feature)} | ${STATES[state]} | ${escapeCell(detail)} |\n`;
  });
  return `${HEAD}${rows.join('')}`;
}

if (import.meta.main) {
  const features = JSON.parse(readFileSync(resolve(ROOT, SOURCE), 'utf8')) as readonly Feature[];
  publishPage({
    root: ROOT,
    path: PAGE,
    page: featuresPage(features),
    problems: findProblems(features, (path) => existsSync(resolve(ROOT, path))),
    command: 'node .ci/features.ts',
  });
}
