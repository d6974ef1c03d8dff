import { beforeEach, describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import { createPairs } from '../../internal/keyset/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import { readSharedKeys } from './key-rotation-driver.ts';

describe('readSharedKeys()', () => {
  let files: MemoryFiles;
  let store: KeyStore;
  beforeEach(() => {
    files = new MemoryFiles();
    store = new KeyStore(files, KEY_PATHS);
  });

  /** Writes the key files that a cluster is created with; each contains its own name. */
  async function writeFirstKeys(): Promise<void> {
    for (const [name, path] of Object.entries(CONTROL_PLANE_KEY_FILES)) {
      await files.makeDirectory(dirname(path));
      await files.writeAtomic(path, name);
    }
  }

  test('returns the first keys as both generations before the first rotation', async () => {
    await writeFirstKeys();
    const { generation, phase, previous, next } = await readSharedKeys(files, store);
    expect([generation, phase, next]).toEqual([1, 'done', previous]);
    const names = Object.entries(next).map(([name, pair]) => [name, pair.public, pair.private.reveal()]);
    expect(Object.fromEntries(names.map(([name, ...pair]) => [name, pair]))).toMatchObject({
      'etcd-clients-ca': ['etcd-clients-ca.crt', 'etcd-clients-ca.key'],
      'kubernetes-clients-ca': ['kubernetes-ca.crt', 'kubernetes-ca.key'],
      'service-account': ['service-account.pub', 'service-account.key'],
      'kubernetes-ca': ['kubernetes-ca.crt', 'kubernetes-ca.key'],
      'cluster-ca': ['cluster-ca.crt', 'cluster-ca.key'],
    });
    expect(names).toHaveLength(9);
  });

  test('adds the first cluster CA and Kubernetes CA to the keys of a rotation by an earlier version, which did not replace them', async () => {
    await writeFirstKeys();
    const [previous, next] = [await createPairs(1, 1), await createPairs(2, 1)];
    await store.saveSet({ generation: 2, phase: 'issue', previous, next });
    const set = await readSharedKeys(files, store);
    expect([set.generation, set.phase]).toEqual([2, 'issue']);
    expect([set.previous, set.next].map((pairs) => pairs['cluster-ca'].public)).toEqual([
      'cluster-ca.crt',
      'cluster-ca.crt',
    ]);
    expect(set.previous['etcd-peers-ca'].public).toBe(previous['etcd-peers-ca'].public);
    expect(set.next['etcd-peers-ca'].public).toBe(next['etcd-peers-ca'].public);
  });

  test('does not need the files of the first keys that a rotation has replaced', async () => {
    const [previous, next] = await Promise.all(
      [1, 2].map(async (generation) => {
        const pairs = await createPairs(generation, 1);
        const { 'etcd-peers-ca': one, 'etcd-clients-ca': other } = pairs;
        return { ...pairs, 'kubernetes-ca': one, 'cluster-ca': other };
      }),
    );
    if (previous === undefined || next === undefined) throw new Error('two generations expected');
    await store.saveSet({ generation: 2, phase: 'done', previous, next });
    const set = await readSharedKeys(files, store);
    expect(set.next['cluster-ca'].public).toBe(next['cluster-ca'].public);
    expect(set.previous['cluster-ca'].public).toBe(previous['cluster-ca'].public);
  });

  test('throws if a file of the first keys is missing', async () => {
    await expect(readSharedKeys(files, store)).rejects.toMatchObject({
      code: 'keyrotation-keys-unavailable',
    });
  });
});
