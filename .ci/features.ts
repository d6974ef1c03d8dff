/**
 * Writes docs/features.md, the features that work, work in part or are missing, and the list of README.md of what does not
 * work, both from docs/features.json. `node .ci/features.ts` writes them; `--check` fails when one is stale, when a named test
 * or page does not exist, when a working feature names no test, or when another one does not say briefly what it lacks.
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
  /** Its name in the list of README.md. Default: `feature`. */
  readonly brief?: string;
  /** What is limited, in a few words, for README.md. A missing feature may go without. */
  readonly lacks?: string;
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
const README = 'README.md';
/** The comments that enclose the list in README.md. */
export const LIMITS_BEGIN = '<!-- limits: written by `node .ci/features.ts` -->';
export const LIMITS_END = '<!-- /limits -->';
/** Characters of a line of README.md about one feature. */
const MAX_BRIEF = 140;
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
  return features.flatMap(({ feature, state, brief = feature, lacks, note, docs, proof }) => [
    ...(state === 'works' && proof.length === 0 ? [`${feature}: works, and names no test`] : []),
    ...(state === 'partial' && note === undefined
      ? [`${feature}: works in part, and does not say which`]
      : []),
    ...(state === 'partial' && lacks === undefined
      ? [`${feature}: works in part, and does not say in a few words what it lacks`]
      : []),
    ...(state !== 'works' && `${brief}: ${lacks ?? ''}`.length > MAX_BRIEF
      ? [`${feature}: brief and lacks have more than ${MAX_BRIEF} characters`]
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

/** README.md with the list of what does not work between its two marker comments. */
export function withLimits(readme: string, features: readonly Feature[]): string {
  const [begin, end] = [readme.indexOf(LIMITS_BEGIN), readme.indexOf(LIMITS_END)];
  if (begin < 0 || end < begin) throw new Error(`${README} has no comments that enclose what does not work`);
  const listed = (state: Feature['state']): readonly string[] =>
    features
      .filter((each) => each.state === state)
      .map(({ feature, brief = feature, lacks }) => `- ${brief}${lacks === undefined ? '' : `: ${lacks}`}`);
  const list = [
    '## What does not work',
    '',
    'Missing:',
    '',
    ...listed('missing'),
    '',
    `In part (details: [${PAGE}](${PAGE})):`,
    '',
    ...listed('partial'),
  ];
  return `${readme.slice(0, begin)}${LIMITS_BEGIN}\n\n${list.join('\n')}\n\n${readme.slice(end)}`;
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
  const readme = readFileSync(resolve(ROOT, README), 'utf8');
  publishPage({
    root: ROOT,
    path: README,
    page: withLimits(readme, features),
    problems: [],
    command: 'node .ci/features.ts',
  });
}
