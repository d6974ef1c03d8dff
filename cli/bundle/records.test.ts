import { expect, test } from '@jest/globals';
import { chmod, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../../internal/testing/index.ts';
import { RecordingHost } from '../host/index.ts';
import { FetchHttp } from './http.ts';
import { openStore, type BundleContext } from './context.ts';
import { recipeKey, Records } from './records.ts';

const signal = new AbortController().signal;
const KEY = recipeKey('kubelet');

test('find() gives what was remembered as long as its blob is there', async () => {
  await using folder = await temporaryDirectory();
  const context = contextOf(new FakeBuildTools({ folder: folder.path, elf: elfFile() }));
  const store = openStore(context);
  const records = new Records(context, store);
  const made = { ...(await store.put(chunksOf('kubelet'), { signal })), source: 'here' };
  await records.remember(KEY, made);
  expect(await records.find(KEY)).toEqual(made);
  expect(await records.find(recipeKey('kubeadm'))).toBeUndefined();
  const path = await store.path(made.sha256);
  await chmod(path, 0o600);
  await unlink(path);
  expect(await records.find(KEY)).toBeUndefined();
});

test.each(['', '{', '{}', '{"sha256":"../../x","sizeBytes":1,"source":"x"}'])(
  'find() takes a damaged record %j for none',
  async (text) => {
    await using folder = await temporaryDirectory();
    const context = contextOf(new FakeBuildTools({ folder: folder.path, elf: elfFile() }));
    const store = openStore(context);
    const records = new Records(context, store);
    await records.remember(KEY, { ...(await store.put(chunksOf('x'), { signal })), source: 'here' });
    await writeFile(join(context.cache, 'recipes', `${KEY}.json`), text);
    expect(await records.find(KEY)).toBeUndefined();
  },
);

test('recipeKey() changes with every value and not with the order of fields', () => {
  const key = recipeKey({ module: 'a', flags: ['x', 'y'], at: { path: 'p', mode: 1 } });
  expect(recipeKey({ at: { mode: 1, path: 'p' }, flags: ['x', 'y'], module: 'a' })).toBe(key);
  expect(recipeKey({ module: 'b', flags: ['x', 'y'], at: { path: 'p', mode: 1 } })).not.toBe(key);
  expect(recipeKey({ module: 'a', flags: ['y', 'x'], at: { path: 'p', mode: 1 } })).not.toBe(key);
  expect(recipeKey({ module: 'a', flags: ['x', 'y'], at: { path: 'p', mode: 2 } })).not.toBe(key);
});

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text));
}

function contextOf(workshop: FakeBuildTools): BundleContext {
  const { ports, cache, machine, env } = workshop;
  const resources = { charts: '/absent', programs: '/absent' };
  return {
    host: new RecordingHost(),
    ports: { ...ports, http: new FetchHttp() },
    cache,
    resources,
    machine,
    env,
    signal,
  };
}
