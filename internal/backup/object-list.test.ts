import { describe, expect, test } from '@jest/globals';
import { CHANGED, decodeObjects, encodeObjects } from './object-list.ts';

const KEYS = [
  '/registry/configmaps/default/"b"\n',
  '/registry/configmaps/default/a',
  '/registry/secrets/x/c',
];
const COMPACTED = new Error('compacted');
const SINCE = 10n;

interface Listed {
  readonly before?: readonly string[];
  readonly after?: readonly (readonly [key: string, modRevision: bigint])[];
  readonly failure?: Error;
}

async function encoded({ before = KEYS, after = KEYS.map((key) => [key, SINCE]), failure }: Listed = {}) {
  const pages = async function* () {
    for (const [key, modRevision] of after)
      yield await Promise.resolve([{ key, modRevision, value: Buffer.from(key) }]);
    if (failure !== undefined) throw failure;
  };
  const keys = async function* () {
    for (const key of before) yield await Promise.resolve([key]);
  };
  const isCompacted = (error: unknown): boolean => error === COMPACTED;
  const chunks: Uint8Array[] = [];
  for await (const chunk of encodeObjects({ since: SINCE, before: keys(), after: pages(), isCompacted }))
    chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

describe('decodeObjects()', () => {
  test.each([1, 7, 1000])('returns what encodeObjects() wrote, in pieces of %d bytes', async (size) => {
    const objects = await decodeObjects(inPieces(await encoded(), size));
    expect([...(objects ?? [])].map(([key]) => key)).toEqual(KEYS);
    expect(new Set(objects?.values()).size).toBe(KEYS.length);
  });

  test.each([
    {
      name: 'changed',
      listed: {
        after: [
          ['/a', 9n],
          ['/b', 11n],
          ['/c', 10n],
        ],
      },
      changed: ['/b'],
    },
    { name: 'deleted', listed: { after: [['/c', 10n]] }, changed: ['/a', '/b'] },
    { name: 'deleted last', listed: { after: [['/a', 10n]] }, changed: ['/b', '/c'] },
    {
      name: 'created',
      listed: {
        after: [
          ['/a', 9n],
          ['/b', 9n],
          ['/bb', 12n],
          ['/c', 1n],
        ],
      },
      changed: ['/bb'],
    },
  ] as const)('flags objects that were $name while the snapshot was taken', async ({ listed, changed }) => {
    const list = await encoded({ before: ['/a', '/b', '/c'], ...listed });
    const objects = await decodeObjects(inPieces(list, 100));
    const changedKeys = [...(objects ?? [])].filter(([, digest]) => digest === CHANGED);
    expect(changedKeys.map(([key]) => key)).toEqual(changed);
  });

  test('lists all objects although etcd forgets the earlier revision while the objects are read', async () => {
    let hasBegun = false;
    const before = async function* () {
      for (const key of KEYS) {
        if (hasBegun) throw COMPACTED;
        yield await Promise.resolve([key]);
      }
    };
    const after = async function* () {
      hasBegun = true;
      for (const key of KEYS)
        yield await Promise.resolve([{ key, modRevision: SINCE, value: Buffer.from(key) }]);
    };
    const listed = { since: SINCE, before: before(), after: after() };
    const isCompacted = (error: unknown): boolean => error === COMPACTED;
    const objects = await decodeObjects(encodeObjects({ ...listed, isCompacted }));
    expect([...(objects ?? [])].map(([key]) => key)).toEqual(KEYS);
  });

  test('returns undefined for a list that a compaction of etcd cut off, and for no list', async () => {
    expect(await decodeObjects(inPieces(await encoded({ failure: COMPACTED }), 100))).toBeUndefined();
    expect(await decodeObjects(inPieces(Buffer.alloc(0), 1))).toBeUndefined();
  });

  test.each([
    { name: 'a line is missing', change: (text: string) => text.replace(/^.*\n/, '') },
    { name: 'the last line is cut', change: (text: string) => text.slice(0, -3) },
    { name: 'a line comes after the number of objects', change: (text: string) => `${text}["/a","b"]\n` },
    { name: 'a key comes twice', change: (text: string) => text.replace(/^.*\n/, '$&$&') },
    { name: 'a line is no object', change: (text: string) => text.replace('[', '{') },
    { name: 'a line is too long', change: (text: string) => text + 'x'.repeat(2 * 1024 ** 2) },
  ])('refuses a list when $name', async ({ change }) => {
    const bytes = Buffer.from(change((await encoded()).toString()));
    await expect(decodeObjects(inPieces(bytes, 4096))).rejects.toMatchObject({
      code: 'backup-content-invalid',
    });
  });
});

test('encodeObjects() passes on every error but a compaction', async () => {
  await expect(encoded({ failure: new Error('unavailable') })).rejects.toThrow('unavailable');
});
