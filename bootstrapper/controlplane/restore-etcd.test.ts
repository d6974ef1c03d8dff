import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { BlobStore } from '../../internal/bundle/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { createMemoryLogger, FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { ETCD_PORTS } from '../consensus/index.ts';
import { restoreEtcdData, snapshotBytes } from './restore-etcd.ts';

const { signal } = new AbortController();

test('restoreEtcdData() raises and compacts the revisions of both etcds, so that every watcher lists again', async () => {
  const files = new MemoryFiles();
  const commands = new FakeCommands((argv) => {
    void files.makeDirectory(`${argv[argv.indexOf('--data-dir') + 1]}/member`);
    return undefined;
  });
  const ports = { commands, files, units: new FakeUnits(), log: createMemoryLogger().log };
  const removed: string[] = [];
  const snapshots = {
    verify: (hash: unknown) => Promise.resolve(`/blobs/${String(hash)}`),
    remove: async (hash: string) => void removed.push(hash),
  };
  const hashes = { stateSnapshotSha256: 'state-hash', kubernetesSnapshotSha256: 'kubernetes-hash' };
  const member = { clusterId: 'c0ffee', nodeId: 'node-1', address: '192.0.2.1', ports: ETCD_PORTS };
  await restoreEtcdData(ports, { epoch: 2, sharedKeys: {}, ...hashes }, { member, snapshots, signal });
  expect(commands.runs).toEqual([
    expect.arrayContaining([
      'restore',
      '/blobs/state-hash',
      '--bump-revision',
      '1000000000',
      '--mark-compacted',
    ]),
    expect.arrayContaining([
      'restore',
      '/blobs/kubernetes-hash',
      '--bump-revision',
      '1000000000',
      '--mark-compacted',
    ]),
  ]);
  expect(removed).toEqual(['state-hash', 'kubernetes-hash']);
});

test('snapshotBytes() adds the sizes of the snapshots that the machine has', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'snapshots-'));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) };
  const files = new DiskFiles();
  const blobs = new BlobStore({ files, streams: new DiskStreams(), roots: [directory] });
  const [state, kubernetes] = [new Uint8Array(30), new Uint8Array(400)];
  const restore = {
    ...{ epoch: 2, sharedKeys: {}, stateSnapshotSha256: sha256(state) },
    kubernetesSnapshotSha256: sha256(kubernetes),
  };
  for (const [bytes, want] of [
    [state, 30],
    [kubernetes, 430],
  ] as const) {
    await blobs.append(sha256(bytes), 0, bytes);
    await blobs.commit(sha256(bytes), signal);
    expect(await snapshotBytes({ files, blobs }, restore)).toBe(want);
  }
  expect(await snapshotBytes({ files, blobs }, undefined)).toBe(0);
});

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
