/**
 * Refuses directories with too many source files, too many exported symbols without a docstring, and a README
 * of more than one page. `node .ci/structure.ts` prints the problems; `--missing` lists the symbols.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { LIMITS_BEGIN, LIMITS_END } from './features.ts';

/**
 * The maximum number of source files in one directory. Tests, test doubles and index.ts are not counted.
 */
const MAX_FILES = 20;
/** The share of exported symbols that must have a docstring. */
const MIN_DOCUMENTED = 0.9;

/** The README has one page beside the list of what does not work; longer subjects have pages of their own in docs/. */
const README = { maxLines: 70, maxBytes: 5_000 };

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCES = '{cli,bootstrapper,joinservice,initproto,internal}/**/*.ts';
const NOT_PRODUCT = /\/gen\/|\.(i?test|fuzz)\.ts$|\/(fake|stub)-[^/]+$|^(internal|joinservice)\/testing\//;

/** Directories with more than `MAX_FILES` source files. */
export function findCrowded(paths: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const path of paths.filter((path) => !path.endsWith('/index.ts')))
    counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count > MAX_FILES)
    .map(([path, count]) => `${path} has ${count} source files; at most ${MAX_FILES}: divide it by subject`);
}

/** The problem of a README that has more than one page. */
export function findLongReadme(readme: string): readonly string[] {
  const [begin, end] = [readme.indexOf(LIMITS_BEGIN), readme.indexOf(LIMITS_END)];
  const text = begin < 0 ? readme : `${readme.slice(0, begin)}${readme.slice(end + LIMITS_END.length)}`;
  const [lines, bytes] = [text.split('\n').length - 1, Buffer.byteLength(text)];
  if (lines <= README.maxLines && bytes <= README.maxBytes) return [];
  const allowed = `at most ${README.maxLines} lines and ${README.maxBytes} bytes`;
  return [`README.md has ${lines} lines and ${bytes} bytes; ${allowed}: move details to docs/`];
}

/** The exported symbols of a file, and which of them have a docstring. */
export function exportsOf(
  path: string,
  text: string,
): readonly { readonly name: string; readonly has: boolean }[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  return source.statements.flatMap((statement) => {
    const isExported =
      ts.canHaveModifiers(statement) &&
      ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
    if (!isExported || (ts.isFunctionDeclaration(statement) && statement.body === undefined)) return [];
    const has = ts.getJSDocCommentsAndTags(statement).length > 0;
    return [{ name: nameOf(statement), has }];
  });
}

function nameOf(statement: ts.Statement): string {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations[0]?.name.getText() ?? '';
  return ts.isDeclarationStatement(statement) ? (statement.name?.getText() ?? '') : '';
}

if (import.meta.main) {
  const paths = globSync(SOURCES, { cwd: ROOT }).filter((path) => !NOT_PRODUCT.test(path));
  const symbols = paths.flatMap((path) =>
    exportsOf(path, readFileSync(resolve(ROOT, path), 'utf8')).map((symbol) => ({ path, ...symbol })),
  );
  const missing = symbols.filter(({ has }) => !has);
  const share = 1 - missing.length / symbols.length;
  const readme = readFileSync(resolve(ROOT, 'README.md'), 'utf8');
  const problems = [...findCrowded(paths), ...findLongReadme(readme)];
  if (share < MIN_DOCUMENTED)
    problems.push(
      `${symbols.length - missing.length} of ${symbols.length} exported symbols have a docstring: less than ${MIN_DOCUMENTED * 100} %`,
    );
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (process.argv.includes('--missing'))
    for (const { path, name } of missing) process.stdout.write(`${path}: ${name}\n`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
