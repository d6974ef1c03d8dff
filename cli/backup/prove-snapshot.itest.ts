import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { put } from '../../internal/etcd/index.ts';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { findEtcdBinary, temporaryDirectory, TestEtcd } from '../../internal/testing/index.ts';
import { proveSnapshot } from './prove-snapshot.ts';

const signal = new AbortController().signal;
const ports = { commands: new ExecaRunner({ path: '/usr/bin:/bin' }), files: new DiskFiles() };

test('proveSnapshot() accepts a snapshot whose hash equals the hash of its etcd, and refuses a different hash or revision', async () => {
  await using etcd = await TestEtcd.create();
  const client = await etcd.connect('root', (await etcd.startMember('m1')).endpoint);
  await using directory = await temporaryDirectory();
  const write = (key: string) =>
    client.commit({ when: [], then: [put(key, Buffer.from(`value of ${key}`))] }, { signal });
  for (let i = 0; i < 100; i++) await write(`/registry/${i}`);
  const { revision } = await client.list('/none/', { signal });
  const { hash } = await client.maintenance.hash(revision, { signal });
  await write('/registry/after'); // a write during the snapshot does not change the hash
  const snapshot = join(directory.path, 'snapshot');
  let sizeBytes = 0;
  for await (const chunk of client.maintenance.snapshot(signal)) {
    await new DiskStreams().writeAt(snapshot, sizeBytes, chunk);
    sizeBytes += chunk.length;
  }
  const etcdutl = await findEtcdBinary(directory.path, 'etcdutl');
  const prove = (facts: { readonly revision: string; readonly hash?: number }) =>
    proveSnapshot(ports, {
      ...{ etcdutl, snapshot, directory: directory.path, name: 'state', facts, signal },
    });
  const facts = { revision: String(revision), hash };
  const proved = await prove(facts);
  expect(proved).toMatchObject({ isHashCompared: true });
  expect(proved.revision).toBeGreaterThan(Number(revision));
  expect(await prove({ revision: facts.revision })).toMatchObject({ isHashCompared: false });
  const unproved = { code: 'backup-unproved' };
  await expect(prove({ ...facts, hash: hash + 1 })).rejects.toMatchObject(unproved);
  await expect(prove({ revision: String(revision + 5n) })).rejects.toMatchObject(unproved);
  await new DiskStreams().writeAt(snapshot, sizeBytes >> 1, Buffer.from('damaged'));
  await expect(prove(facts)).rejects.toMatchObject(unproved);
});
