import { describe, expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { ClusterSpecSchema } from '../../../initproto/gen/init_pb.js';
import { createHash } from 'node:crypto';
import {
  CLUSTER_CA,
  createPairs,
  encodeKeySet,
  FIRST_GENERATION,
  ROTATION_FILE,
  type KeySet,
} from '../../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { MemoryFiles } from '../../../internal/testing/host/memory-files.ts';
import { readWorkspaceCa } from '../curator/known-ca.ts';
import { saveRestoredCa, withRestore, type RestoreSource, type SnapshotSource } from './restore-source.ts';

const file = { path: '/cluster-ca.json', of: 'one' };

test('withRestore() sends the machines that the workspace knows, and the workers that stay members', () => {
  const machine = { identity: `tpm-ek:${'0a'.repeat(32)}`, nodeId: `node-${'1'.repeat(32)}`, name: 'n5' };
  const snapshot: SnapshotSource = { sha256: 'a'.repeat(64), sizeBytes: 0, read: none };
  const { restore } = withRestore(create(ClusterSpecSchema), {
    ...{ epoch: 2, state: snapshot, kubernetes: snapshot, sharedKeys: new Secret({}) },
    knownMachines: [machine],
    keptWorkers: [{ nodeId: machine.nodeId, name: 'w1' }],
  });
  expect(restore?.knownMachines).toMatchObject([machine]);
  expect(restore?.keptWorkers).toMatchObject([{ nodeId: machine.nodeId, name: 'w1' }]);
});

describe('saveRestoredCa()', () => {
  const snapshot: SnapshotSource = { sha256: createHash('sha256').digest('hex'), sizeBytes: 0, read: none };
  const restoreOf = (files: Readonly<Record<string, string>>): RestoreSource => ({
    ...{ epoch: 2, state: snapshot, kubernetes: snapshot },
    sharedKeys: new Secret(files),
    ...{ knownMachines: [], keptWorkers: [] },
  });

  /** What the workspace trusts after the restore of a backup that was taken in this phase of the rotation to generation 3. */
  async function trusted(phase: KeySet['phase'], which: 'previous' | 'next') {
    const nowMs = Date.UTC(2026, 0, 1);
    const pairs = await createPairs(3, nowMs);
    const createCa = async () => {
      const keyPem = generateKeyPem();
      return { private: keyPem, public: await createCaCertPem({ commonName: 'cluster', keyPem, nowMs }) };
    };
    const cas = { previous: await createCa(), next: await createCa() };
    const set = {
      ...{ generation: 3, phase },
      previous: { ...pairs, [CLUSTER_CA]: cas.previous },
      next: { ...pairs, [CLUSTER_CA]: cas.next },
    };
    const { public: caPem } = cas[which];
    const files = new MemoryFiles();
    const restore = restoreOf({ [ROTATION_FILE]: encodeKeySet(set).reveal() });
    await saveRestoredCa(files, file, { caPem, restore });
    const first = { trustedPem: caPem, generation: FIRST_GENERATION };
    return { ...(await readWorkspaceCa(files, file, first)), caPem };
  }

  test('saves the generation of the CA in the backup as a floor', async () => {
    const { caPem, trustedPem, generation } = await trusted('done', 'next');
    expect({ trustedPem, generation }).toEqual({ trustedPem: caPem, generation: 3 });
  });

  test('saves the earlier generation of a CA that a rotation was about to replace', async () => {
    expect(await trusted('distribute', 'previous')).toMatchObject({ generation: 2 });
  });

  test('saves nothing for a new cluster, for keys that were never rotated, and for another CA', async () => {
    const files = new MemoryFiles();
    await saveRestoredCa(files, file, { caPem: 'x', restore: undefined });
    await saveRestoredCa(files, file, { caPem: 'x', restore: restoreOf({}) });
    expect(await files.stat(file.path)).toBeUndefined();
  });
});

async function* none() {
  // No test reads a snapshot.
}
