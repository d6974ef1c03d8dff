/**
 * Writes the table of docs/operators.md that says who may call what, and what an owner has to sign, from the list that authorizes
 * the calls (joinservice/curator/access/access-rules.ts). `node .ci/operator-rights.ts` writes the table; `--check` fails when it
 * is stale, or when a test that a row names does not exist.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ACCESS_RULES, type AccessRule } from '../joinservice/curator/access/access-rules.ts';
import { escapeCell, publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGE = 'docs/operators.md';
const BEGIN =
  '<!-- rights: written by `node .ci/operator-rights.ts`, from joinservice/curator/access/access-rules.ts -->';
const END = '<!-- /rights -->';
const HEAD = ['call', 'lowest role', 'nodes', 'an owner must sign', 'verified by', 'used by'];

type Rules = Readonly<Record<string, AccessRule>>;

/** Tests that the rules name and that do not exist. */
export function findProblems(rules: Rules, exists: (path: string) => boolean): readonly string[] {
  return Object.entries(rules).flatMap(([name, { signed = [] }]) =>
    signed.filter(({ test }) => !exists(test)).map(({ test }) => `${name}: ${test} does not exist`),
  );
}

/** The page with the table between its two marker comments. */
export function withRights(page: string, rules: Rules): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no comments that enclose the table of rights`);
  const row = (cells: readonly string[]): string => `| ${cells.map(escapeCell).join(' | ')} |`;
  const table = [
    row(HEAD),
    `|${HEAD.map(() => '---|').join('')}`,
    ...Object.entries(rules).map((each) => row(cellsOf(each))),
  ];
  return `${page.slice(0, begin)}${BEGIN}\n\n${table.join('\n')}\n\n${page.slice(end)}`;
}

function cellsOf([name, rule]: readonly [string, AccessRule]): string[] {
  const { lowestRole, nodesToo, byKeyAlone, usedBy, signed = [] } = rule;
  const role = lowestRole === undefined ? 'none' : `\`${lowestRole}\``;
  return [
    `\`${name}\``,
    byKeyAlone === true ? `${role}, also with the key alone` : role,
    nodesToo ? 'yes' : 'no',
    signed.map(({ what, signs }) => `${what}: ${signs}`).join('; '),
    signed.map(({ verifiedBy, test }) => `${verifiedBy.join(', ')} (\`${test}\`)`).join('; '),
    usedBy,
  ];
}

if (import.meta.main)
  publishPage({
    root: ROOT,
    path: PAGE,
    page: withRights(readFileSync(resolve(ROOT, PAGE), 'utf8'), ACCESS_RULES),
    problems: findProblems(ACCESS_RULES, (path) => existsSync(resolve(ROOT, path))),
    command: 'node .ci/operator-rights.ts',
  });
