/**
 * Checks the decision tree of docs/recovery.md: each leaf names commands, and the story that runs them. `node
 * .ci/recovery-tree.ts`.
 *
 * A leaf is an item of the list without items below it. It ends with "Test: `FILE`: TITLE".
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGE = 'docs/recovery.md';
const HEADING = '## What do you see?';
const ITEM = /^( *)- (.*)$/;
const TEST = /Test: `([^`]+)`: (.+)$/;
const COMMAND = /`cluster ([a-z][a-z-]*(?: [a-z][a-z-]*(?=[ `]))*)[^`]*`/g;

interface Item {
  readonly depth: number;
  readonly text: string;
}

/**
 * The problems of the tree in a page.
 * @param read the text of a file of this repository; undefined if it does not exist
 */
export function findProblems(page: string, read: (path: string) => string | undefined): readonly string[] {
  const items = itemsOf(page);
  const leaves = items.filter(({ depth }, at) => (items[at + 1]?.depth ?? 0) <= depth);
  if (leaves.length === 0) return [`${PAGE}: no decision tree below "${HEADING}"`];
  return leaves.flatMap(({ text }) =>
    problemsOf(text, page, read).map((problem) => `"${text.slice(0, 60)}…": ${problem}`),
  );
}

function itemsOf(page: string): readonly Item[] {
  const [, section = ''] = page.split(`${HEADING}\n`);
  const items: Item[] = [];
  for (const line of section.split(/\n(?=#)/)[0]?.split('\n') ?? []) {
    const [, indent, text = ''] = ITEM.exec(line) ?? [];
    const last = items.at(-1);
    if (indent !== undefined) items.push({ depth: indent.length, text });
    else if (last !== undefined) items.splice(-1, 1, { ...last, text: `${last.text} ${line.trim()}`.trim() });
  }
  return items;
}

function problemsOf(
  text: string,
  page: string,
  read: (path: string) => string | undefined,
): readonly string[] {
  const [, path, title = ''] = TEST.exec(text) ?? [];
  if (path === undefined) return ['names no test'];
  // Only a story runs the commands as an operator does, on machines that really have the problem.
  if (!path.endsWith('.story.ts')) return [`${path} is no story`];
  const commands = [...text.matchAll(COMMAND)].map(([, words = '']) => words);
  const test = read(path);
  if (test === undefined) return [`${path} does not exist`];
  // A story may run its commands in a file beside it.
  const beside = [...test.matchAll(/from '\.\/([\w-]+\.ts)'/g)].map(([, name = '']) =>
    read(join(dirname(path), name)),
  );
  const source = [test, ...beside].join('\n');
  return [
    ...(commands.length === 0 ? ['names no command'] : []),
    ...(['"', "'", '`'].some((quote) => test.includes(`${quote}${title}${quote}`))
      ? []
      : [`${path} has no test "${title}"`]),
    ...commands
      .filter((words) => !new RegExp(`(?<![\\w-])${words.replaceAll(' ', `['", ]+`)}(?![\\w-])`).test(source))
      .map((words) => `${path} does not run \`cluster ${words}\``),
    ...[...text.matchAll(/\]\(#([^)]+)\)/g)]
      .filter(([, anchor]) => !anchorsOf(page).includes(anchor ?? ''))
      .map(([, anchor]) => `the page has no heading #${anchor}`),
  ];
}

/** The anchors of a page as GitHub forms them. */
function anchorsOf(page: string): readonly string[] {
  return [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

if (import.meta.main) {
  const problems = findProblems(readFileSync(resolve(ROOT, PAGE), 'utf8'), (path) =>
    existsSync(resolve(ROOT, path)) ? readFileSync(resolve(ROOT, path), 'utf8') : undefined,
  );
  for (const line of problems) process.stderr.write(`${PAGE}: ${line}\n`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
