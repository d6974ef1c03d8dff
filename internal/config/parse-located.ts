import { isMap, isNode, isScalar, isSeq, LineCounter, parseDocument, visit, type Document } from 'yaml';
import type { z } from 'zod';
import { expectedShape, innermostIssue } from '../errors/index.ts';

/** A problem of a file. */
export interface Problem {
  /** For example "charts.0.version"; empty for the whole file. */
  readonly path: string;
  /** Lines and columns count from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** The parsed value, or all problems. */
export type LocatedResult<T> =
  | { readonly kind: 'valid'; readonly value: T }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] };

const MAX_ALIASES = 50;

/** Parses and validates YAML. Every problem has its position in the text. */
export function parseLocated<T>(schema: z.ZodType<T>, text: string): LocatedResult<T> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, prettyErrors: false });
  const at = (offset: number): { line: number; column: number } => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const syntax = [...document.errors, ...document.warnings];
  if (syntax.length > 0) {
    const problems = syntax.map((error) => {
      const [offset] = error.pos;
      const message = messageOf(error, () => repeatedKey(document, offset, (first) => at(first).line));
      return { path: '', ...at(offset), message };
    });
    return { kind: 'invalid', problems };
  }
  const plain = plainFrom(document);
  if (plain instanceof Error)
    return { kind: 'invalid', problems: [{ path: '', ...at(0), message: plain.message }] };
  const parsed = schema.safeParse(plain ?? {});
  if (parsed.success) return { kind: 'valid', value: parsed.data };
  const problems = parsed.error.issues
    .flatMap((issue) => problemsFrom(innermostIssue(issue), document))
    .map(({ offset, ...problem }) => ({ ...problem, ...at(offset) }))
    .sort((a, b) => a.line - b.line || a.column - b.column);
  return { kind: 'invalid', problems };
}

/** Replaces a message of the parser that is meant for programmers. */
function messageOf(
  { code, message }: { readonly code: string; readonly message: string },
  repeated: () => string | undefined,
): string {
  if (code === 'MULTIPLE_DOCS') return 'a second document begins here; the file must hold one';
  return (code === 'DUPLICATE_KEY' ? repeated() : undefined) ?? message;
}

/** Names the key at this offset, and the line of the same key before it. */
function repeatedKey(
  document: Document,
  offset: number,
  lineOf: (offset: number) => number,
): string | undefined {
  let text: string | undefined;
  visit(document, {
    Map: (_, { items }) => {
      const keys = items.flatMap(({ key }) =>
        isScalar(key) && key.range ? [{ name: String(key.value), start: key.range[0] }] : [],
      );
      const second = keys.find(({ start }) => start === offset);
      const first = keys.find(({ name }) => name === second?.name);
      if (second === undefined || first === undefined) return undefined;
      text = `the key “${second.name}” is in line ${lineOf(first.start)} already; keep one of them`;
      return visit.BREAK;
    },
  });
  return text;
}

/** The position of a value in a YAML text, or of its nearest existing parent; counts from 1. `[name]` is the list element with this identity. */
export function positionOf(
  text: string,
  path: readonly string[],
): { readonly line: number; readonly column: number } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  let node: unknown = document.contents;
  let offset = 0;
  for (const segment of path) {
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && key.value === segment)
      : undefined;
    const element = isSeq(node)
      ? node.items.find((each) => isMap(each) && `[${String(each.get('identity'))}]` === segment)
      : undefined;
    const start = pair?.key ?? element;
    if (!isNode(start) || !start.range) break;
    offset = start.range[0];
    node = pair === undefined ? element : pair.value;
  }
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

/** Aliases can expand a small file without limit, so the parser stops at a maximum. */
function plainFrom(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    return error;
  }
}

type Unplaced = Pick<Problem, 'path' | 'message'> & { readonly offset: number };

function problemsFrom(issue: z.core.$ZodIssue, document: Document): readonly Unplaced[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...issue.path, key].join('.'),
      message: `unknown key “${key}”`,
      offset: offsetOfKey(document, [...issue.path, key]),
    }));
  }
  const path = issue.path.join('.');
  const found = document.getIn(issue.path, false);
  const shown = found === undefined ? 'is missing' : describeFound(found);
  const want = wantOf(issue);
  return [
    {
      path,
      message: `${path || 'the file'} ${shown}; it must be ${want}`,
      offset: offsetOf(document, issue.path),
    },
  ];
}

/** What the value must be, in the words of YAML. */
function wantOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type' && issue.expected === 'object') return 'keys with values (`key: value`)';
  if (issue.code === 'invalid_type' && issue.expected === 'array') return 'a list (`- item`)';
  return expectedShape(issue);
}

function describeFound(value: unknown): string {
  if (isNode(value)) return 'has other content';
  const text = JSON.stringify(value);
  return `is ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`;
}

/** The offset of a value, or of its nearest parent when it is missing. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return 0;
}

function offsetOfKey(document: Document, path: readonly PropertyKey[]): number {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const pair = isMap(parent)
    ? parent.items.find((item) => isScalar(item.key) && String(item.key.value) === path.at(-1))
    : undefined;
  return isScalar(pair?.key) && pair.key.range ? pair.key.range[0] : offsetOf(document, path.slice(0, -1));
}
