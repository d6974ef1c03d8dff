/**
 * Writes the table of docs/glossary.md from docs/glossary.json, and refuses the words that the table
 * replaces: in names of files and declarations, in comments and in sentences (string literals with a space,
 * Markdown pages). `node .ci/glossary.ts` writes the page; `--check` fails on a stale page and prints every
 * position of a refused word.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { escapeCell, publishPage } from './page.ts';

/** One replaced term. */
export interface Term {
  /** The refused term, as the table prints it. */
  readonly not: string;
  readonly use: string;
  /**
   * Refused in names: words in lower case. Several words are a sequence: `way on` matches `wayOn` and
   * `way-on`.
   */
  readonly names?: readonly string[];
  /** Refused in sentences: regular expressions that match whole words in any case. */
  readonly texts?: readonly string[];
}

/** A path where a refused word is allowed, and the reason. */
export interface Exemption {
  /** A file or the beginning of paths. */
  readonly path: string;
  readonly words?: readonly string[];
  readonly reason: string;
}

interface Glossary {
  readonly terms: readonly Term[];
  /**
   * Words that a path may use, because the project cannot choose the name there. Without `words`, all words
   * are allowed.
   */
  readonly exempt: readonly Exemption[];
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = 'docs/glossary.json';
const PAGE = 'docs/glossary.md';

/**
 * The words of a name, separated by spaces: `leaseTimeoutMs`, `LEASE_TIMEOUT` and `lease-timeout.ts` have
 * the same first words.
 */
export function wordsOf(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .join(' ')
    .trim();
}

/** The names that a file declares and the sentences in it, with their lines. */
export function findTexts(path: string, text: string): readonly Found[] {
  if (!/\.(ts|mjs)$/.test(path)) {
    return text.split('\n').map((line, index) => ({ kind: 'text', text: line, line: index + 1 }));
  }
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found: Found[] = [];
  const lineAt = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1;
  const comments = new Set<number>();
  const visit = (node: ts.Node): void => {
    for (const range of ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []) {
      if (comments.has(range.pos)) continue;
      comments.add(range.pos);
      found.push({ kind: 'text', text: text.slice(range.pos, range.end), line: lineAt(range.pos) });
    }
    const name = declaredName(node);
    if (name !== undefined)
      found.push({ kind: 'name', text: name.text, line: lineAt(name.getStart(source)) });
    const sentence = sentenceOf(node, source);
    if (sentence !== undefined)
      found.push({ kind: 'text', text: sentence, line: lineAt(node.getStart(source)) });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

interface Found {
  readonly kind: 'name' | 'text';
  readonly text: string;
  readonly line: number;
}

function declaredName(node: ts.Node): ts.Identifier | ts.PrivateIdentifier | undefined {
  if (ts.isImportSpecifier(node) || ts.isExportSpecifier(node)) return undefined;
  if (!('name' in node)) return undefined;
  const { name } = node as { readonly name?: ts.Node };
  if (ts.isPropertyAccessExpression(node)) return undefined;
  return name !== undefined && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) ? name : undefined;
}

function sentenceOf(node: ts.Node, source: ts.SourceFile): string | undefined {
  const isText =
    ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node);
  if (!isText || ts.isImportDeclaration(node.parent)) return undefined;
  const text = node.getText(source);
  return text.includes(' ') ? text : undefined;
}

/** Every refused word of one file: `path:line: "word": use …`. */
export function findRefused(
  path: string,
  text: string,
  terms: readonly Term[],
  exempt: readonly Exemption[] = [],
): readonly string[] {
  const own = exempt.filter((each) => path.startsWith(each.path));
  if (own.some(({ words }) => words === undefined)) return [];
  const allowed = new Set(own.flatMap(({ words = [] }) => words));
  const names = terms.flatMap(({ names = [], use }) => names.map((word) => ({ word: ` ${word} `, use })));
  const texts = terms.flatMap(({ texts = [], use }) =>
    texts.map((pattern) => ({ pattern: new RegExp(`(?<![\\w-])(?:${pattern})(?![\\w-])`, 'i'), use })),
  );
  const inName = (name: string, at: string) =>
    names
      .filter(({ word }) => ` ${wordsOf(name)} `.includes(word) && !allowed.has(word.trim()))
      .map(({ word, use }) => `${at}: name ${name}: not "${word.trim()}" but ${use}`);
  return [
    ...inName(path, path),
    ...findTexts(path, text).flatMap((found) =>
      found.kind === 'name'
        ? inName(found.text, `${path}:${found.line}`)
        : texts.flatMap(({ pattern, use }) => {
            const match = pattern.exec(found.text);
            return match === null || allowed.has(match[0].toLowerCase())
              ? []
              : [`${path}:${found.line}: text: not "${match[0]}" but ${use}`];
          }),
    ),
  ];
}

/** The page with the table of terms in place of the old one. */
export function renderPage(page: string, terms: readonly Term[]): string {
  const rows = terms.map(({ not, use }) => `| ${escapeCell(not)} | ${escapeCell(use)} |`);
  const [head = ''] = page.split('| not | but |');
  return `${head}| not | but |\n|---|---|\n${rows.join('\n')}\n`;
}

function trackedFiles(): readonly string[] {
  const out = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return out.split('\0').filter((path) => /\.(ts|mjs|md|proto)$/.test(path) && !/\/gen\//.test(path));
}

if (import.meta.main) {
  const { terms, exempt } = JSON.parse(readFileSync(resolve(ROOT, SOURCE), 'utf8')) as Glossary;
  const problems = trackedFiles().flatMap((path) =>
    findRefused(path, readFileSync(resolve(ROOT, path), 'utf8'), terms, exempt),
  );
  const page = renderPage(readFileSync(resolve(ROOT, PAGE), 'utf8'), terms);
  publishPage({ root: ROOT, path: PAGE, page, problems, command: 'node .ci/glossary.ts' });
}
