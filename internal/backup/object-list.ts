import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { z } from 'zod';
import { BackupError } from './errors.ts';
import { digestOfObject } from './object-digest.ts';

/**
 * The objects of Kubernetes in a backup: key in etcd, and SHA-256 (`digestOfObject`). An object that changed while the backup was
 * taken has the digest `CHANGED`, because nobody knows which of its states the snapshot has.
 */
export type ObjectDigests = ReadonlyMap<string, string>;
/** See `ObjectDigests`. */
export const CHANGED = '';

/** The objects of Kubernetes in etcd, before and after its snapshot, both in the order of their keys. */
export interface ListedObjects {
  /** The revision before the snapshot, and the keys at this revision. */
  readonly since: bigint;
  readonly before: AsyncIterable<readonly string[]>;
  /** The objects at a revision after the snapshot. */
  readonly after: AsyncIterable<
    readonly { readonly key: string; readonly value: Uint8Array; readonly modRevision: bigint }[]
  >;
  /** Whether an error means that etcd compacted its history meanwhile. */
  readonly isCompacted: (error: unknown) => boolean;
}

/** A key cannot be longer in etcd, with some space for its digest. */
const MAX_LINE_LENGTH = 1024 ** 2;
const objectShape = z.tuple([z.string(), z.string().max(64)]);
const endShape = z.strictObject({ objects: z.int().min(0) });

/**
 * Encodes the part `objects`: a line of JSON for each object, and the number of objects in the last line. The last line is
 * missing if etcd compacted its history before all objects were read.
 */
export async function* encodeObjects(listed: ListedObjects): AsyncGenerator<Uint8Array> {
  const { since, after, isCompacted } = listed;
  let objects = 0;
  const encode = (all: readonly (readonly [string, string])[]): Uint8Array => {
    objects += all.length;
    return Buffer.from(all.map((each) => `${JSON.stringify(each)}\n`).join(''), 'utf8');
  };
  try {
    const before = new KeyReader(await readAhead(listed.before));
    for await (const page of after) {
      const lines: (readonly [string, string])[] = [];
      for (const { key, value, modRevision } of page) {
        for (const deleted of before.until(key)) lines.push([deleted, CHANGED]);
        lines.push([key, modRevision > since ? CHANGED : digestOfObject(value)]);
      }
      yield encode(lines);
    }
    for (const deleted of before.until(undefined)) yield encode([[deleted, CHANGED]]);
  } catch (error) {
    if (!isCompacted(error)) throw error;
    return;
  }
  yield Buffer.from(`${JSON.stringify({ objects })}\n`, 'utf8');
}

/**
 * Reads all pages now, and keeps them compressed: reading the objects takes minutes, and etcd forgets the earlier revision
 * meanwhile.
 */
async function readAhead(pages: AsyncIterable<readonly string[]>): Promise<Iterator<readonly string[]>> {
  const kept: Buffer[] = [];
  for await (const page of pages) kept.push(deflateRawSync(JSON.stringify(page), { level: 1 }));
  return kept.values().map((page) => JSON.parse(inflateRawSync(page).toString('utf8')) as string[]);
}

/** Reads sorted keys up to a given one. Keys of Kubernetes are ASCII, so etcd sorts them as JavaScript does. */
class KeyReader {
  readonly #pages: Iterator<readonly string[]>;
  #page: readonly string[] = [];
  #at = 0;

  constructor(pages: Iterator<readonly string[]>) {
    this.#pages = pages;
  }

  /** The next keys before `end`, which is skipped; undefined: all. */
  *until(end: string | undefined): Generator<string> {
    for (;;) {
      const key = this.#page[this.#at];
      if (key === undefined) {
        const next = this.#pages.next();
        if (next.done === true) return;
        [this.#page, this.#at] = [next.value, 0];
        continue;
      }
      if (end !== undefined && key > end) return;
      this.#at++;
      if (key === end) return;
      yield key;
    }
  }
}

/**
 * Reads the part `objects`. Undefined if it is incomplete.
 * @throws BackupError `backup-content-invalid`
 */
export async function decodeObjects(chunks: AsyncIterable<Uint8Array>): Promise<ObjectDigests | undefined> {
  const digests = new Map<string, string>();
  let rest = Buffer.alloc(0);
  let end: number | undefined;
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    const last = bytes.lastIndexOf('\n');
    rest = bytes.subarray(last + 1);
    if (rest.length > MAX_LINE_LENGTH) throw malformed();
    for (const line of bytes.subarray(0, Math.max(0, last)).toString('utf8').split('\n')) {
      if (line === '') continue;
      if (end !== undefined) throw malformed();
      const value = parse(line);
      if (Array.isArray(value) && digests.has(value[0])) throw malformed();
      if (Array.isArray(value)) digests.set(...value);
      else end = value.objects;
    }
  }
  if (rest.length > 0) throw malformed();
  if (end !== undefined && end !== digests.size) throw malformed();
  return end === undefined ? undefined : digests;
}

function parse(line: string): z.infer<typeof objectShape> | z.infer<typeof endShape> {
  try {
    return z.union([objectShape, endShape]).parse(JSON.parse(line));
  } catch (cause) {
    throw malformed(cause);
  }
}

function malformed(cause?: unknown): BackupError {
  return new BackupError('backup-content-invalid', 'reading the objects of a backup: malformed', { cause });
}
