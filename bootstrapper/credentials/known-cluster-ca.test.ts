import { expect, test } from '@jest/globals';
import type { KeyStage } from '../../internal/keyset/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, createNodeState, KEY_PATHS } from '../nodestate/index.ts';
import { readKnownClusterCa } from './known-cluster-ca.ts';

async function machineAt(stage: KeyStage | undefined) {
  const files = new MemoryFiles();
  const state = createNodeState(files);
  await files.makeDirectory(AGENT_PATHS.state);
  const store = new KeyStore(files, KEY_PATHS);
  if (stage !== undefined) await store.saveStage(stage);
  return { files, state, store };
}

test.each([
  { name: 'that has joined no cluster', stage: undefined, provisioned: undefined, want: 1 },
  { name: 'that was provisioned after a rotation', stage: undefined, provisioned: 3, want: 3 },
  { name: 'that accepts both CAs', stage: { generation: 3, phase: 'refresh' } as const, want: 2 },
  { name: 'that accepts the next CA only', stage: { generation: 3, phase: 'retire' } as const, want: 3 },
  {
    name: 'that was provisioned before it took part in a rotation',
    stage: { generation: 3, phase: 'done' } as const,
    provisioned: 2,
    want: 3,
  },
])(
  'readKnownClusterCa() returns the key generation of a machine $name',
  async ({ stage, provisioned, want }) => {
    const machine = await machineAt(stage);
    expect((await readKnownClusterCa(machine, provisioned)).generation).toBe(want);
  },
);

test('readKnownClusterCa() returns the CAs of the membership and the accepted documents', async () => {
  const machine = await machineAt({ generation: 2, phase: 'done' });
  expect((await readKnownClusterCa(machine)).trustedPem).toBeUndefined();
  await machine.state.membership.save({ clusterCaPem: 'CA' } as Membership);
  await machine.store.saveFloors({ keys: { serial: 4 } });
  expect(await readKnownClusterCa(machine)).toEqual({
    trustedPem: 'CA',
    generation: 2,
    floors: { keys: { serial: 4 } },
  });
});

test('readKnownClusterCa() fails if the file with the generation is damaged, because the machine would otherwise accept any generation', async () => {
  const machine = await machineAt({ generation: 2, phase: 'done' });
  await machine.files.writeAtomic(KEY_PATHS.stage, '{}');
  await expect(readKnownClusterCa(machine)).rejects.toMatchObject({ code: 'keyrotation-stage-damaged' });
});
