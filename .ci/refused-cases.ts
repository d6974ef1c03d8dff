/**
 * Writes docs/refused-cases.md: every fault of evidence, certificates, policies and sessions, and the test
 * that refuses it for the stated reason. The cases are in docs/refused-cases.json. A test is [alias of its
 * file, title, code of the refusal]; a case that cannot reach the product has an `answer` instead of tests.
 * `node .ci/refused-cases.ts` writes the page; with `--check` it fails when the page is stale, when a file
 * has no such title, or when the test does not assert the code.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeCell, publishPage } from './page.ts';

type Refusal = readonly [alias: string, title: string, code: string];

interface Case {
  readonly case: string;
  readonly refused?: readonly Refusal[];
  /** Why such a case cannot reach the product. */
  readonly answer?: string;
}

interface Cases {
  readonly files: Readonly<Record<string, string>>;
  readonly sections: readonly { readonly title: string; readonly cases: readonly Case[] }[];
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = 'docs/refused-cases.json';
const PAGE = 'docs/refused-cases.md';
/** The start of the next test or table row. */
const NEXT = /\bname: ['"`]|\n\s*\[['"`]|\b(?:test|it)(?:\.each)?\(|\bdescribe\(|\bt\.test\(/g;

/**
 * Whether the test of this title asserts the code: in its own row or body. If its row has no code, the
 * shared body of the table must assert it.
 */
export function assertsCode(text: string, title: string, code: string): 'yes' | 'no-title' | 'no-code' {
  const starts = ["'", '"', '`']
    .flatMap((quote) => positionsOf(text, `${quote}${title}${quote}`))
    .map((at) => at + title.length + 2);
  if (starts.length === 0) return 'no-title';
  return starts.some((start) => codeFrom(text, start, code)) ? 'yes' : 'no-code';
}

function codeFrom(text: string, start: number, code: string): boolean {
  NEXT.lastIndex = start;
  const own = text.slice(start, NEXT.exec(text)?.index ?? text.length);
  if (mentions(own, code)) return true;
  if (/\b(?:want|code): /.test(own)) return false;
  const bodyAt = text.slice(start).search(/\]\)\(|\btest\.each\(|\bfor \(const \{/);
  if (bodyAt < 0) return false;
  const body = text.slice(start + bodyAt);
  const end = body.search(/\n {0,2}\}\);/);
  return mentions(body.slice(0, end < 0 ? body.length : end), code);
}

function mentions(text: string, code: string): boolean {
  return new RegExp(`(?<![\\w-])${code}(?![\\w-])`).test(text);
}

function positionsOf(text: string, wanted: string): readonly number[] {
  const found: number[] = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) found.push(at);
  return found;
}

export function renderCases(
  { files, sections }: Cases,
  read: (path: string) => string,
): { readonly page: string; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const rowOf = ({ case: what, refused = [], answer }: Case): string => {
    if (refused.length > 0 === (answer !== undefined))
      problems.push(`"${what}": tests, or an answer why there is none`);
    const cells = refused.map(([alias, title, code]) => {
      const path = files[alias];
      const found = path === undefined ? 'no-title' : assertsCode(read(path), title, code);
      if (found === 'no-title') problems.push(`"${what}": ${path ?? alias} has no test "${title}"`);
      if (found === 'no-code') problems.push(`"${what}": "${title}" in ${path} does not assert ${code}`);
      return `\`${code}\` \`${path ?? alias}\`: ${title}`;
    });
    return `| ${escapeCell(what)} | ${escapeCell(answer === undefined ? cells.join('<br>') : `*${answer}*`)} |`;
  };
  const parts = sections.map(
    ({ title, cases }) =>
      `## ${title}\n\n| case | refused as, by |\n| --- | --- |\n${cases.map(rowOf).join('\n')}\n`,
  );
  const all = sections.flatMap(({ cases }) => cases);
  const intro = `# What is refused, and the test that shows it

Each row is one way to be wrong; each test named here turns red when it is accepted or refused for another reason. Made by
\`node .ci/refused-cases.ts\` from \`${SOURCE}\`; checked by the gate, code by code. ${all.length} cases, ${all.filter(({ answer }) => answer !== undefined).length} of them answered by design.
`;
  return { page: `${intro}\n${parts.join('\n')}`, problems };
}

if (import.meta.main) {
  const cases = JSON.parse(readFileSync(resolve(ROOT, SOURCE), 'utf8')) as Cases;
  const { page, problems } = renderCases(cases, (path) => readFileSync(resolve(ROOT, path), 'utf8'));
  publishPage({ root: ROOT, path: PAGE, page, problems, command: 'node .ci/refused-cases.ts' });
}
