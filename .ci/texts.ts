/**
 * Prints every text of the project with its position, for a review by a reader: the messages that people
 * see (errors, fixes, help, progress, logs), or with `--kind comment|title` the comments or test titles.
 * `node .ci/texts.ts --sample 200 --seed 7` draws that many texts of all three kinds at random. Each text is
 * printed as its reader meets it: a message with its line of code, a comment with the two lines below it, a
 * test title with the titles of the groups around it and with the row of its table filled in.
 */
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import ts from 'typescript';

type Kind = 'message' | 'comment' | 'title';

interface Text {
  readonly kind: Kind;
  /** `path:line`. */
  readonly where: string;
  readonly text: string;
  /** For a comment: the two lines of code that follow. For a message: the line of code that it is in. */
  readonly code?: readonly string[];
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const FILES = '{cli,bootstrapper,joinservice,initproto,internal,e2e}/**/*.ts';
const TEST = /\.(i?test|story|fuzz)\.ts$/;
/** A text that a reader must understand has two words; separators and single names have not. */
const TWO_WORDS = /[A-Za-z]{2,}.*\s.*[A-Za-z]{2,}/s;

/** The texts of one file: comments of any file, messages of product code, titles of tests. */
export function textsOf(path: string, source: string): readonly Text[] {
  const isTest = TEST.test(path) || /\/(fake|stub)-|(^|\/)testing\/|^e2e\//.test(path);
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  return [...commentsOf(file), ...(isTest ? titlesOf(file) : messagesOf(file))]
    .map(({ at, ...found }) => ({
      ...found,
      where: `${path}:${file.getLineAndCharacterOfPosition(at).line + 1}`,
      at,
    }))
    .filter(({ text }) => TWO_WORDS.test(text))
    .sort((one, other) => one.at - other.at)
    .map(({ at: _, ...found }) => found);
}

interface Found extends Omit<Text, 'where'> {
  /** The text's offset in the file. */
  readonly at: number;
}

/** Comments; neighbouring `//` lines are one comment. */
function commentsOf(file: ts.SourceFile): readonly Found[] {
  const ranges = new Map<number, ts.CommentRange>();
  forEachNode(file, (node) => {
    for (const range of [
      ...(ts.getLeadingCommentRanges(file.text, node.getFullStart()) ?? []),
      ...(ts.getTrailingCommentRanges(file.text, node.end) ?? []),
    ])
      ranges.set(range.pos, range);
  });
  const merged: { pos: number; end: number }[] = [];
  for (const { pos, end } of [...ranges.values()].sort((one, other) => one.pos - other.pos)) {
    const last = merged.at(-1);
    const isNext =
      last !== undefined &&
      file.text.startsWith('//', last.pos) &&
      file.text.startsWith('//', pos) &&
      /^\s*\n[ \t]*$/.test(file.text.slice(last.end, pos)) &&
      !file.text.slice(last.end, pos).includes('\n\n');
    if (isNext) last.end = end;
    else merged.push({ pos, end });
  }
  return merged.map(({ pos, end }) => ({
    kind: 'comment',
    at: pos,
    text: stripComment(file.text.slice(pos, end)),
    code: linesAfter(file.text, pos, end),
  }));
}

/** The next two lines that are not empty. A comment at the end of a line has this line before them. */
function linesAfter(source: string, pos: number, end: number): readonly string[] {
  const before = source.slice(source.lastIndexOf('\n', pos - 1) + 1, pos);
  const after = source
    .slice(end)
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(0, 2);
  return before.trim() === '' ? after : [before.trimEnd(), ...after.slice(0, 1)];
}

/** Strings of product code; a sentence in several pieces that `+` joins is one text. */
function messagesOf(file: ts.SourceFile): readonly Found[] {
  const found: Found[] = [];
  forEachNode(file, (node) => {
    const text = textOf(node);
    if (text === undefined || ts.isImportDeclaration(node.parent) || isPiece(node)) return;
    const at = node.getStart(file);
    const end = file.text.indexOf('\n', at);
    const line = file.text.slice(file.text.lastIndexOf('\n', at) + 1, end < 0 ? undefined : end);
    found.push({ kind: 'message', at, text, code: [line] });
  });
  return found;
}

/** Whether a `+` joins this string with another one. */
function isPiece(node: ts.Node): boolean {
  return ts.isBinaryExpression(node.parent) && textOf(node.parent) !== undefined;
}

/** The text of a string, of a template as it is written, or of such pieces that `+` joins. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node)) return node.getText().slice(1, -1);
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.PlusToken) return undefined;
  const [left, right] = [textOf(node.left), textOf(node.right)];
  return left === undefined || right === undefined ? undefined : `${left}${right}`;
}

/** Titles of tests with the titles of their groups; a test with a table has one title for each row. */
function titlesOf(file: ts.SourceFile): readonly Found[] {
  const found: Found[] = [];
  const visit = (node: ts.Node, groups: readonly string[]): void => {
    const title = ts.isCallExpression(node) ? titleOf(node) : undefined;
    if (title === undefined) {
      ts.forEachChild(node, (child) => {
        visit(child, groups);
      });
      return;
    }
    const rows = title.table === undefined ? [] : rowsOf(title.table, file);
    const own =
      rows.length === 0
        ? [{ at: title.at, text: title.text }]
        : rows.map((row) => ({ at: row.at, text: fillIn(title.text, row.values) }));
    for (const { at, text } of own) found.push({ kind: 'title', at, text: [...groups, text].join(' › ') });
    ts.forEachChild(node, (child) => {
      visit(child, [...groups, title.text]);
    });
  };
  visit(file, []);
  const seen = new Set<string>();
  return found.filter(({ at, text }) => !seen.has(`${at} ${text}`) && seen.add(`${at} ${text}`));
}

/** The title of `test('…')`, `describe.each(table)('…')`, `story.test('…')` and the like. */
function titleOf(call: ts.CallExpression): { text: string; at: number; table?: ts.Expression } | undefined {
  const [first, body] = call.arguments;
  const text = first === undefined ? undefined : textOf(first);
  // `test()` of a regular expression has no second argument.
  if (first === undefined || text === undefined || body === undefined) return undefined;
  const table = ts.isCallExpression(call.expression) ? call.expression.arguments[0] : undefined;
  const callee = (
    table === undefined ? call.expression : (call.expression as ts.CallExpression).expression
  ).getText();
  const isTest = /(^|\.)(test|it|describe)(\.(each|only|skip|failing|concurrent))*$/.test(callee);
  if (!isTest || callee.endsWith('.each') !== (table !== undefined)) return undefined;
  return { text, at: first.getStart(), ...(table && { table }) };
}

interface Row {
  readonly at: number;
  /** The values of the row that a title can show, by name or by position. */
  readonly values: ReadonlyMap<string, string>;
}

/** The rows of a table: those of an array, or of an array of this file that the expression names. */
function rowsOf(table: ts.Expression, file: ts.SourceFile): readonly Row[] {
  let value: ts.Expression | undefined = ts.isIdentifier(table) ? initializerOf(table, file) : table;
  while (value !== undefined && (ts.isAsExpression(value) || ts.isSatisfiesExpression(value)))
    value = value.expression;
  if (value === undefined || !ts.isArrayLiteralExpression(value)) return [];
  return value.elements.map((row) => ({ at: row.getStart(), values: valuesOf(row, file) }));
}

/** The value of the constant that this name means here: the one in the nearest enclosing scope. */
function initializerOf(name: ts.Identifier, file: ts.SourceFile): ts.Expression | undefined {
  let nearest: ts.VariableDeclaration | undefined;
  let depth = -1;
  forEachNode(file, (node) => {
    if (!ts.isVariableDeclaration(node) || node.name.getText() !== name.text) return;
    const scope = node.parent.parent.parent;
    const isVisible = scope.pos <= name.pos && name.end <= scope.end;
    const own = depthOf(scope);
    if (isVisible && own > depth) [nearest, depth] = [node, own];
  });
  return nearest?.initializer;
}

function depthOf(node: ts.Node): number {
  let depth = 0;
  for (let each = node; !ts.isSourceFile(each); each = each.parent) depth++;
  return depth;
}

/** The values of a row: an object, a list, or a call of a function of this file whose parameters name them. */
function valuesOf(row: ts.Expression, file: ts.SourceFile): ReadonlyMap<string, string> {
  const show = (value: ts.Expression) => textOf(value) ?? value.getText();
  if (ts.isCallExpression(row) && ts.isIdentifier(row.expression)) {
    const made = initializerOf(row.expression, file);
    if (made !== undefined && ts.isArrowFunction(made))
      return new Map(
        row.arguments.map((value, index) => [made.parameters[index]?.name.getText() ?? '', show(value)]),
      );
  }
  if (ts.isObjectLiteralExpression(row))
    return new Map(
      row.properties
        .filter((each) => ts.isPropertyAssignment(each))
        .map(({ name, initializer }) => [name.getText(), show(initializer)]),
    );
  const cells = ts.isArrayLiteralExpression(row) ? row.elements : [row];
  return new Map(cells.map((cell, index) => [String(index), show(cell)]));
}

/** A title as the test runner prints it: `$name` by name, `%s` and `%j` by position. */
function fillIn(title: string, values: ReadonlyMap<string, string>): string {
  let position = 0;
  return title
    .replace(/\$(\w+)/g, (whole, name: string) => values.get(name) ?? whole)
    .replace(/%[sjdpio]/g, (whole) => {
      const value = values.get(String(position++));
      return value !== undefined && whole === '%j' ? JSON.stringify(value) : (value ?? whole);
    });
}

function forEachNode(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => {
    forEachNode(child, visit);
  });
}

function stripComment(text: string): string {
  return text
    .replace(/^\/\*\*?|\*\/$|^\/\/ ?/g, '')
    .replace(/\n\s*(\*|\/\/) ?/g, ' ')
    .trim();
}

/** Draws `count` items with a generator that is seeded with `seed` (mulberry32). */
export function sample<T>(items: readonly T[], count: number, seed: number): readonly T[] {
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return items
    .map((item) => ({ item, order: random() }))
    .sort((one, other) => one.order - other.order)
    .slice(0, count)
    .map(({ item }) => item);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { kind: { type: 'string' }, sample: { type: 'string' }, seed: { type: 'string', default: '1' } },
  });
  const all = globSync(FILES, { cwd: ROOT })
    .filter((path) => !path.includes('/gen/'))
    .sort()
    .flatMap((path) => textsOf(path, readFileSync(resolve(ROOT, path), 'utf8')));
  const kinds: readonly Kind[] = ['message', 'comment', 'title'];
  const drawn: readonly Text[] =
    values.sample === undefined
      ? all.filter(({ kind }) => kind === (values.kind ?? 'message'))
      : kinds.flatMap((kind, index) => {
          const share = Math.ceil((Number(values.sample) - index) / kinds.length);
          return sample(
            all.filter((each) => each.kind === kind),
            share,
            Number(values.seed) + index,
          );
        });
  for (const { kind, where, text, code = [] } of drawn) {
    process.stdout.write(`${kind} ${where}\n  ${text}\n`);
    for (const line of code) process.stdout.write(`    | ${line}\n`);
  }
}
