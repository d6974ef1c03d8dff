import { expect, test } from '@jest/globals';
import { chmod, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../testing/index.ts';
import { openBundleCache } from './build-context.ts';
import { fakeBuildContext } from './fake-build-context.ts';
import { BuildCache, recipeKey } from './build-cache.ts';

const signal = new AbortController().signal;
const KEY = recipeKey('kubelet');

test('BuildCache.find() returns a saved component as long as its blob exists', async () => {
  await using directory = await temporaryDirectory();
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  const store = openBundleCache(context).store;
  const cache = new BuildCache(context, store);
  const made = { ...(await store.put(chunksOf('kubelet'), { signal })), source: 'here' };
  await cache.save(KEY, made);
  expect(await cache.find(KEY)).toEqual(made);
  expect(await cache.find(recipeKey('kubeadm'))).toBeUndefined();
  const path = await store.path(made.sha256);
  await chmod(path, 0o600);
  await unlink(path);
  expect(await cache.find(KEY)).toBeUndefined();
});

test.each(['', '{', '{}', '{"sha256":"../../x","sizeBytes":1,"source":"x"}'])(
  'BuildCache.find() ignores a damaged record %j',
  async (text) => {
    await using directory = await temporaryDirectory();
    const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
    const store = openBundleCache(context).store;
    const cache = new BuildCache(context, store);
    await cache.save(KEY, { ...(await store.put(chunksOf('x'), { signal })), source: 'here' });
    await writeFile(join(context.cache, 'recipes', `${KEY}.json`), text);
    expect(await cache.find(KEY)).toBeUndefined();
  },
);

test('recipeKey() changes with every value, but not with the order of fields', () => {
  const key = recipeKey({ module: 'a', flags: ['x', 'y'], at: { path: 'p', mode: 1 } });
  expect(recipeKey({ at: { mode: 1, path: 'p' }, flags: ['x', 'y'], module: 'a' })).toBe(key);
  expect(recipeKey({ module: 'b', flags: ['x', 'y'], at: { path: 'p', mode: 1 } })).not.toBe(key);
  expect(recipeKey({ module: 'a', flags: ['y', 'x'], at: { path: 'p', mode: 1 } })).not.toBe(key);
  expect(recipeKey({ module: 'a', flags: ['x', 'y'], at: { path: 'p', mode: 2 } })).not.toBe(key);
});

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text));
}
