/**
 * Writes the README's table of features that work, work in part or are missing, from docs/features.json.
 * `node .ci/features.ts` writes the table; `--check` fails when it is stale, when a named test or page does
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
  /** The page that describes the feature. */
  readonly docs?: string;
  /** Tests that fail without the feature, or directories of such tests. */
  readonly proof: readonly string[];
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = 'docs/features.json';
const PAGE = 'README.md';
const BEGIN = '<!-- features: written by `node .ci/features.ts`, from docs/features.json -->';
const END = '<!-- /features -->';

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

/** The page with the table between its two marker comments. */
export function withFeatures(page: string, features: readonly Feature[]): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no comments that enclose the table of features`);
  const rows = features.map(({ feature, state, note, docs }) => {
    const about = [note, docs === undefined ? undefined : `[${docs.replace(/^docs\//, '')}](${docs})`];
    const detail = about.filter((part) => part !== undefined).join('; ');
    return `| ${escapeCell(feature)} | ${STATES[state]} | ${escapeCell(detail)} |`;
  });
  return `${page.slice(0, begin)}${BEGIN}\n\n| feature | works | details |\n|---|---|---|\n${rows.join('\n')}\n\n${page.slice(end)}`;
}

if (import.meta.main) {
  const features = JSON.parse(readFileSync(resolve(ROOT, SOURCE), 'utf8')) as readonly Feature[];
  publishPage({
    root: ROOT,
    path: PAGE,
    page: withFeatures(readFileSync(resolve(ROOT, PAGE), 'utf8'), features),
    problems: findProblems(features, (path) => existsSync(resolve(ROOT, path))),
    command: 'node .ci/features.ts',
  });
}
