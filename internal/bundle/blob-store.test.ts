import { createHash } from 'node:crypto';
import { appendFile, chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { DiskFiles, DiskStreams } from '../file/index.ts';
import { BlobStore } from './blob-store.ts';
import type { BundleManifest, Component } from './component.ts';

const signal = new AbortController().signal;
const BYTES = new TextEncoder().encode('the kubelet, more or less');
const KUBELET: Component = {
  name: 'kubelet',
  version: 'v1.35.4',
  kind: 'binary',
  sha256: createHash('sha256').update(BYTES).digest('hex'),
  sizeBytes: BYTES.length,
  source: 'here',
  scope: 'node',
};

let directory: string;
let store: BlobStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'blobs-'));
  store = open('store');
});
afterEach(() => rm(directory, { recursive: true }));

describe('append() and commit()', () => {
  test('makes a blob from consecutive pieces', async () => {
    expect(await store.append(KUBELET, 0, BYTES.subarray(0, 10))).toBe(10);
    expect(await store.has(KUBELET.sha256)).toBe(false);
    expect(await store.append(KUBELET, 10, BYTES.subarray(10))).toBe(BYTES.length);
    await store.commit(KUBELET, signal);
    expect(new Uint8Array(await readFile(await store.verify(KUBELET, signal)))).toEqual(BYTES);
    expect((await stat(await store.path(KUBELET.sha256))).mode & 0o777).toBe(0o444);
    expect(await store.partialSize(KUBELET.sha256)).toBe(0);
  });

  test('a second process continues a partial blob', async () => {
    await store.append(KUBELET, 0, BYTES.subarray(0, 7));
    const later = open('store');
    const offset = await later.partialSize(KUBELET.sha256);
    expect(offset).toBe(7);
    await later.append(KUBELET, offset, BYTES.subarray(offset));
    await later.commit(KUBELET, signal);
    await later.verify(KUBELET, signal);
  });

  test('refuses a gap with an error that has the expected offset', async () => {
    await store.append(KUBELET, 0, BYTES.subarray(0, 7));
    await expect(store.append(KUBELET, 8, BYTES.subarray(8))).rejects.toMatchObject({
      code: 'bundle-offset',
      details: { expected: 7 },
    });
  });

  test('accepts a repeated piece whose acknowledgement was lost', async () => {
    await store.append(KUBELET, 0, BYTES.subarray(0, 7));
    expect(await store.append(KUBELET, 0, BYTES.subarray(0, 7))).toBe(7);
  });

  test('refuses a negative offset', async () => {
    await expect(store.append(KUBELET, -1, BYTES.subarray(0, 1))).rejects.toMatchObject({
      code: 'bundle-offset',
    });
  });

  test('refuses more bytes than the manifest states', async () => {
    await expect(store.append(KUBELET, 0, new Uint8Array(BYTES.length + 1))).rejects.toMatchObject({
      code: 'bundle-too-long',
    });
    expect(await store.partialSize(KUBELET.sha256)).toBe(0);
  });

  test('refuses a blob with a flipped byte, names the blob in the error, and starts again', async () => {
    await store.append(KUBELET, 0, flipped(BYTES, 5));
    await expect(store.commit(KUBELET, signal)).rejects.toMatchObject({
      code: 'bundle-blob-corrupt',
      message: expect.stringContaining('kubelet'),
      details: { name: 'kubelet' },
    });
    expect(await store.partialSize(KUBELET.sha256)).toBe(0);
    expect(await store.has(KUBELET.sha256)).toBe(false);
  });

  test('refuses a truncated blob', async () => {
    await store.append(KUBELET, 0, BYTES.subarray(0, 7));
    await expect(store.commit(KUBELET, signal)).rejects.toMatchObject({ code: 'bundle-blob-corrupt' });
  });

  test('commit() refuses a blob without any bytes', async () => {
    await expect(store.commit(KUBELET, signal)).rejects.toMatchObject({ code: 'bundle-blob-missing' });
  });

  test('a second commit() of the same blob succeeds', async () => {
    await fill(store);
    await store.commit(KUBELET, signal);
    expect(await store.has(KUBELET.sha256)).toBe(true);
  });

  test('two concurrent writers of the same blob store it once', async () => {
    const other = open('store');
    const upload = async (to: BlobStore): Promise<void> => {
      for (let offset = await to.partialSize(KUBELET.sha256); offset < BYTES.length; offset++) {
        if (await to.has(KUBELET.sha256)) return;
        await to.append(KUBELET, offset, BYTES.subarray(offset, offset + 1)).catch(toleratingOvertaking);
      }
      await to.commit(KUBELET, signal);
    };
    await Promise.all([upload(store), upload(store), upload(other)]);
    await store.verify(KUBELET, signal);
  });

  test('stops when its signal fires', async () => {
    await store.append(KUBELET, 0, BYTES);
    const stopped = AbortSignal.abort(new Error('enough'));
    await expect(store.commit(KUBELET, stopped)).rejects.toThrow('enough');
    expect(await store.partialSize(KUBELET.sha256)).toBe(BYTES.length);
  });
});

describe('verify()', () => {
  test.each([0, 12, BYTES.length - 1])('verify() detects a flipped byte %i on disk', async (index) => {
    await fill(store);
    const path = await store.path(KUBELET.sha256);
    await chmod(path, 0o644);
    await writeFile(path, flipped(BYTES, index));
    await expect(store.verify(KUBELET, signal)).rejects.toMatchObject({
      code: 'bundle-blob-corrupt',
      details: { name: 'kubelet', path },
    });
  });

  test('verify() accepts a blob of many pieces, and refuses it when two pieces are swapped', async () => {
    const bytes = Buffer.alloc(3 * 512 * 1024 + 7, 'a').fill('b', 512 * 1024, 1024 * 1024);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    await store.append(sha256, 0, bytes);
    await store.commit(sha256, signal);
    const path = await store.verify(sha256, signal);
    await chmod(path, 0o644);
    await writeFile(path, Buffer.alloc(bytes.length, 'a').fill('b', 0, 512 * 1024));
    await expect(store.verify(sha256, signal)).rejects.toMatchObject({ code: 'bundle-blob-corrupt' });
  });

  test('verify() detects an additional byte on disk', async () => {
    await fill(store);
    const path = await store.path(KUBELET.sha256);
    await chmod(path, 0o644);
    await appendFile(path, 'x');
    await expect(store.verify(KUBELET.sha256, signal)).rejects.toMatchObject({ code: 'bundle-blob-corrupt' });
  });

  test('verify() refuses the right hash with the wrong length in the manifest', async () => {
    await fill(store);
    const lying = { ...KUBELET, sizeBytes: BYTES.length + 1 };
    await expect(store.verify(lying, signal)).rejects.toMatchObject({ code: 'bundle-blob-corrupt' });
  });

  test('verify() reports a missing blob', async () => {
    await expect(store.verify(KUBELET, signal)).rejects.toMatchObject({ code: 'bundle-blob-missing' });
  });

  test.each(['../../etc/passwd', '', 'A'.repeat(64), `${'a'.repeat(64)}\n`])(
    'verify() refuses the invalid digest %j',
    async (digest) => {
      await expect(store.path(digest)).rejects.toMatchObject({ code: 'bundle-manifest-invalid' });
      await expect(store.partialSize(digest)).rejects.toMatchObject({ code: 'bundle-manifest-invalid' });
    },
  );
});

describe('read-only directories of BlobStore (seeds)', () => {
  test('BlobStore reads and verifies seeds and never writes to them', async () => {
    await fill(open('seed'));
    const seeded = open('store', 'seed');
    const before = await readdir(join(directory, 'seed'), { recursive: true });
    expect(await seeded.has(KUBELET.sha256)).toBe(true);
    expect(await seeded.verify(KUBELET, signal)).toContain('/seed/');
    await seeded.put(chunksOf('something else'), { signal });
    expect(await readdir(join(directory, 'seed'), { recursive: true })).toEqual(before);
  });

  test('BlobStore refuses a seed with a flipped byte', async () => {
    await fill(open('seed'));
    const path = await open('seed').path(KUBELET.sha256);
    await chmod(path, 0o644);
    await writeFile(path, flipped(BYTES, 1));
    await expect(open('store', 'seed').verify(KUBELET, signal)).rejects.toMatchObject({
      code: 'bundle-blob-corrupt',
    });
  });
});

describe('put()', () => {
  test('put() stores a stream under the hash of its bytes and leaves no other file', async () => {
    const digest = await store.put(chunksOf('the kubelet,', ' more or less'), { signal });
    expect(digest).toEqual({ sha256: KUBELET.sha256, sizeBytes: KUBELET.sizeBytes });
    await store.verify(KUBELET, signal);
    expect(await readdir(join(directory, 'store', 'partial'))).toEqual(['sha256']);
  });

  test('put() refuses unexpected bytes and leaves no file', async () => {
    const putting = store.put(chunksOf('the kubelet, rather more'), { expected: KUBELET, signal });
    await expect(putting).rejects.toMatchObject({
      code: 'bundle-blob-corrupt',
      details: { name: 'kubelet' },
    });
    expect(await readdir(join(directory, 'store', 'blobs', 'sha256'))).toEqual([]);
    expect(await readdir(join(directory, 'store', 'partial'))).toEqual(['sha256']);
  });

  test('put() leaves no file when its source fails', async () => {
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield BYTES;
      await Promise.resolve();
      throw new Error('cut');
    };
    await expect(store.put(failing(), { signal })).rejects.toThrow('cut');
    expect(await readdir(join(directory, 'store', 'partial'))).toEqual(['sha256']);
  });
});

test('BlobStore.read() returns the bytes from an offset to the end', async () => {
  await fill(store);
  const got: Uint8Array[] = [];
  for await (const chunk of store.read(KUBELET.sha256, { offset: 4, signal })) got.push(chunk);
  expect(Buffer.concat(got).toString()).toBe('kubelet, more or less');
});

test('BlobStore.missing() lists the components of the given scopes that no root directory has', async () => {
  const kubectl: Component = { ...KUBELET, name: 'kubectl', sha256: 'c'.repeat(64), scope: 'workstation' };
  const manifest: BundleManifest = {
    version: 1,
    name: 'kubernetes-v1.35.4-linux-amd64',
    kubernetesVersion: 'v1.35.4',
    architecture: 'amd64',
    components: [kubectl, KUBELET],
  };
  expect(await store.missing(manifest)).toEqual([kubectl, KUBELET]);
  expect(await store.missing(manifest, ['node'])).toEqual([KUBELET]);
  await fill(store);
  expect(await store.missing(manifest)).toEqual([kubectl]);
  expect(await store.missing(manifest, ['node', 'controlplane'])).toEqual([]);
});

function open(root: string, ...seeds: string[]): BlobStore {
  const at = (name: string): string => join(directory, name);
  return new BlobStore({
    files: new DiskFiles(),
    streams: new DiskStreams(),
    roots: [at(root), ...seeds.map(at)],
  });
}

async function fill(into: BlobStore): Promise<void> {
  await into.append(KUBELET, 0, BYTES);
  await into.commit(KUBELET, signal);
}

function flipped(bytes: Uint8Array, index: number): Uint8Array {
  return bytes.map((byte, at) => (at === index ? byte ^ 0x01 : byte));
}

async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield await Promise.resolve(new TextEncoder().encode(text));
}

function toleratingOvertaking(error: { code?: string }): void {
  if (error.code !== 'bundle-offset') throw error;
}
