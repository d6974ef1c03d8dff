/**
 * Writes the map of second-level directories in ARCHITECTURE.md: the first sentence of each directory's
 * `index.ts`. `node .ci/directories.ts` writes the map; `--check` fails when the map is stale, or when a
 * directory has no purpose.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeCell, publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGE = 'ARCHITECTURE.md';
const BEGIN = '<!-- directories: written by `node .ci/directories.ts` -->';
const END = '<!-- /directories -->';
const PARENTS = ['cli', 'bootstrapper', 'joinservice', 'internal'];

/** Directories that have no index.ts of their own, each with its purpose. */
const WITHOUT_INDEX: Readonly<Record<string, string>> = {
  'bootstrapper/exporter': 'Serves the metrics of this node to Prometheus: a program of its own.',
  'bootstrapper/apilb': 'The balancer between this node and all API servers: a program of its own.',
  'cli/commands': 'One file for each command: flags in, one use case called, nothing decided.',
  'joinservice/curatorproto': "The contracts of the curator and of the operators' service (protobuf).",
  'joinservice/joinproto': 'The contract of joining (protobuf).',
  'joinservice/signerproto': 'The contract between join service and signer (protobuf).',
};

/** The first sentence of the docstring at the start of a file; undefined if the file has none. */
export function purposeOf(text: string): string | undefined {
  const comment = /^\s*\/\*\*([\s\S]*?)\*\//m.exec(text)?.[1];
  if (comment === undefined) return undefined;
  const plain = comment.replace(/\n\s*\* ?/g, ' ').trim();
  const sentence = /^.*?[.:](?=\s|$)/.exec(plain)?.[0] ?? plain;
  return /^(Port|Domain|Ground) layer:$/.test(sentence)
    ? purposeAfter(plain, sentence)
    : sentence.replace(/:$/, '.');
}

function purposeAfter(plain: string, prefix: string): string {
  const rest = plain.slice(prefix.length).trim();
  const sentence = /^.*?[.:](?=\s|$)/.exec(rest)?.[0] ?? rest;
  return `${prefix} ${sentence.replace(/:$/, '.')}`;
}

/** The page with these tables between its two marker comments. */
export function withMap(
  page: string,
  rows: readonly { readonly path: string; readonly purpose: string }[],
): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin)
    throw new Error(`${PAGE} has no comments that enclose the map of directories`);
  const table = rows.map(({ path, purpose }) => `| \`${path}\` | ${escapeCell(purpose)} |`);
  return `${page.slice(0, begin)}${BEGIN}\n\n| directory | what it is for |\n|---|---|\n${table.join('\n')}\n\n${page.slice(end)}`;
}

if (import.meta.main) {
  const found = PARENTS.flatMap((parent) =>
    globSync(`${parent}/*/`, { cwd: ROOT }).map((path) => path.replace(/\/$/, '')),
  ).sort(
    (one, other) =>
      PARENTS.indexOf(one.split('/')[0] ?? '') - PARENTS.indexOf(other.split('/')[0] ?? '') ||
      one.localeCompare(other),
  );
  const rows = found.map((path) => {
    const index = resolve(ROOT, path, 'index.ts');
    const own = existsSync(index) ? purposeOf(readFileSync(index, 'utf8')) : undefined;
    return { path, purpose: own ?? WITHOUT_INDEX[path] };
  });
  const problems = rows
    .filter(({ purpose }) => purpose === undefined)
    .map(({ path }) => `${path}/index.ts must begin with a docstring that says what the directory is for`);
  const page = withMap(
    readFileSync(resolve(ROOT, PAGE), 'utf8'),
    rows.map(({ path, purpose }) => ({ path, purpose: purpose ?? '' })),
  );
  publishPage({ root: ROOT, path: PAGE, page, problems, command: 'node .ci/directories.ts' });
}
