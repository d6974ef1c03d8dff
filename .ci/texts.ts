/**
 * Prints every text of the project with its position, for a review by a reader: the messages that people
 * see (errors, fixes, help, progress, logs), or with `--kind comment|title` the comments or test titles.
 * `node .ci/texts.ts --sample 200 --seed 7` draws that many texts of all three kinds at random.
 */
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findTexts } from './glossary.ts';

type Kind = 'message' | 'comment' | 'title';

interface Text {
  readonly kind: Kind;
  /** `path:line`. */
  readonly where: string;
  readonly text: string;
}

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const FILES = '{cli,bootstrapper,joinservice,initproto,internal,e2e}/**/*.ts';
const TEST = /\.(i?test|story|fuzz)\.ts$/;

/** The texts of one file: comments of any file, messages of product code, titles of tests. */
export function textsOf(path: string, source: string): readonly Text[] {
  const isTest = TEST.test(path) || /\/(fake|stub)-|(^|\/)testing\/|^e2e\//.test(path);
  return findTexts(path, source)
    .filter(({ kind }) => kind === 'text')
    .flatMap(({ text, line }): readonly Text[] => {
      const where = `${path}:${line}`;
      if (/^\/[/*]/.test(text)) return [{ kind: 'comment', where, text: stripComment(text) }];
      const sentence = text.slice(1, -1);
      if (isTest) return isTitle(source, line) ? [{ kind: 'title', where, text: sentence }] : [];
      return [{ kind: 'message', where, text: sentence }];
    })
    .filter(({ text }) => / /.test(text));
}

/** Whether this line begins a test, a group of tests or a row of a test table. */
function isTitle(source: string, line: number): boolean {
  const lines = source.split('\n');
  const [before = '', own = ''] = [lines[line - 2], lines[line - 1]];
  return /\b(test|it|describe)\b|\bname: /.test(own) || /\b(test|it|describe)(\.\w+)*\($/.test(before);
}

function stripComment(text: string): string {
  return text
    .replace(/^\/\*\*?|\*\/$|^\/\/ ?/g, '')
    .replace(/\n\s*\* ?/g, ' ')
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
  for (const { kind, where, text } of drawn) process.stdout.write(`${kind} ${where}\n  ${text}\n`);
}
