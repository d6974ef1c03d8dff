import { expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { readJson } from '../../internal/file/index.ts';
import { FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import type { ClusterSettings } from '../roleserve/index.ts';
import { membership, settings } from '../roleserve/fake-node.ts';
import { signerDriver } from './signer-driver.ts';

const signal = new AbortController().signal;
const MEMORY = '/var/lib/cluster-signer/floors.json';
const CONFIG = '/etc/cluster/signer.json';

async function create() {
  const files = new MemoryFiles();
  for (const directory of ['/etc/cluster', '/var/lib/cluster-signer']) await files.makeDirectory(directory);
  await files.writeAtomic(MEMORY, '{}');
  const values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterSettings: new EventValue<ClusterSettings | undefined>(),
  };
  values.clusterMembership.set(membership);
  values.clusterSettings.set(settings);
  const forgotten: string[] = [];
  const rollback = {
    signedAfterMs: undefined as number | undefined,
    forgetSigner: async (remove: () => Promise<void>) => {
      forgotten.push((await files.stat(MEMORY)) === undefined ? 'after' : 'before');
      await remove();
    },
  };
  const ports = { files, units: new FakeUnits(), commands: new FakeCommands() };
  const driver = signerDriver(ports, { ownerKeys: [new Uint8Array(32)], values, rollback });
  return { files, driver, rollback, forgotten };
}

test('signerDriver() tells the signer since when the disk is known to be an old copy', async () => {
  const { files, driver, rollback } = await create();
  const told = async (): Promise<unknown> => {
    await driver.start(signal);
    const { cluster } = (await readJson(files, CONFIG, 65_536)) as { readonly cluster: object };
    return 'signedAfterMs' in cluster ? cluster.signedAfterMs : undefined;
  };
  expect(await told()).toBeUndefined();
  rollback.signedAfterMs = 5;
  expect(await told()).toBe(5);
});

test('signerDriver() forgets what the signer has accepted, before it removes the files of the signer', async () => {
  const { files, driver, forgotten } = await create();
  await driver.stop(signal);
  expect(forgotten).toEqual(['before']);
  expect(await files.stat(MEMORY)).toBeUndefined();
});
