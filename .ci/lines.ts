/**
 * Counts lines of product code without comments and empty lines. docs/code-size.md says which commits to compare.
 *
 *     node .ci/lines.ts                   the checkout
 *     node .ci/lines.ts COMMIT…           each commit
 *     node .ci/lines.ts --changes A..B    how many lines each commit added or removed
 */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PROGRAMS = ['cli', 'bootstrapper', 'joinservice', 'initproto', 'internal'];
const NOT_PRODUCT =
  /\/gen\/|\.(i?test|fuzz|story)\.ts$|\/(fake|stub)-[^/]+$|^[a-z]+\/testing\/|\/(fixtures|testing)\//;

/** Whether a path is product code: TypeScript of a program or of the shared library, not generated, not a test. */
export function isProduct(path: string): boolean {
  return path.endsWith('.ts') && PROGRAMS.includes(path.split('/')[0] ?? '') && !NOT_PRODUCT.test(path);
}

/** The number of lines on which a token of code begins, ends or continues. */
export function codeLines(text: string): number {
  const file = ts.createSourceFile('x.ts', text, ts.ScriptTarget.Latest, false);
  const lines = new Set<number>();
  const visit = (node: ts.Node): void => {
    const children = node.getChildren(file);
    if (children.length > 0) {
      children.forEach(visit);
      return;
    }
    if (node.kind === ts.SyntaxKind.EndOfFileToken || ts.isJSDoc(node)) return;
    const start = file.getLineAndCharacterOfPosition(node.getStart(file, false)).line;
    const end = file.getLineAndCharacterOfPosition(node.getEnd()).line;
    if (node.getEnd() > node.getStart(file, false))
      for (let line = start; line <= end; line++) lines.add(line);
  };
  visit(file);
  return lines.size;
}

interface Source {
  readonly path: string;
  readonly text: string;
}

function sourcesOf(commit: string | undefined): readonly Source[] {
  if (commit === undefined)
    return globSync(`{${PROGRAMS.join(',')}}/**/*.ts`, { cwd: ROOT })
      .filter(isProduct)
      .map((path) => ({ path, text: readFileSync(resolve(ROOT, path), 'utf8') }));
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 });
  return git('ls-tree', '-r', '--name-only', commit)
    .split('\n')
    .filter(isProduct)
    .map((path) => ({ path, text: git('show', `${commit}:${path}`) }));
}

/** How many lines each commit of a range added; negative if it removed more. Renamed files count as unchanged. */
function changesOf(range: string): readonly { readonly commit: string; readonly lines: number }[] {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 });
  const counted = new Map<string, number>();
  const count = (id: string): number => {
    if (/^0+$/.test(id)) return 0; // the file does not exist on this side
    const lines = counted.get(id) ?? codeLines(git('cat-file', 'blob', id));
    counted.set(id, lines);
    return lines;
  };
  const log = git('log', '--reverse', '--no-renames', '--raw', '--no-abbrev', '--format=@%H %s', range);
  return log
    .split(/^@/m)
    .slice(1)
    .map((entry) => {
      const [title = '', ...changes] = entry.split('\n');
      const commit = `${title.slice(0, 8)} ${title.slice(41)}`;
      const lines = changes
        .map((change) => change.split('\t'))
        .filter(([, path = '']) => isProduct(path))
        .map(([sides = '']) => sides.split(' '))
        .reduce((sum, [, , before = '0', after = '0']) => sum + count(after) - count(before), 0);
      return { commit, lines };
    });
}

if (import.meta.main) {
  const [first, ...others] = process.argv.slice(2);
  if (first === '--changes') {
    for (const { commit, lines } of changesOf(others[0] ?? 'HEAD'))
      if (lines !== 0) process.stdout.write(`${String(lines).padStart(6)}  ${commit}\n`);
  } else {
    for (const commit of first === undefined ? [undefined] : [first, ...others]) {
      const sources = sourcesOf(commit);
      const counts = PROGRAMS.map((program) => {
        const own = sources.filter(({ path }) => path.startsWith(`${program}/`));
        return { program, lines: own.reduce((sum, { text }) => sum + codeLines(text), 0) };
      });
      const total = counts.reduce((sum, { lines }) => sum + lines, 0);
      const parts = counts.map(({ program, lines }) => `${program} ${lines}`).join(', ');
      process.stdout.write(`${commit ?? 'checkout'}: ${total} lines in ${sources.length} files (${parts})\n`);
    }
  }
}
