import { expect, test } from '@jest/globals';
import type { FilePort } from '../../internal/file/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { FakeCommands } from '../../internal/testing/host/fake-commands.ts';
import { FakeUnits } from '../../internal/testing/host/fake-units.ts';
import { everyFault } from '../../internal/testing/host/faulty-files.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { CONTROL_PLANE_KEY_FILES, PATHS, StepCheckpoints } from '../kubernetes/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { bootstrap, membership } from '../roleserve/fake-node.ts';
import { RoleValueStore } from '../roleserve/index.ts';
import { JOINSERVICE_UNIT } from '../units/index.ts';
import { MachineControlPlaneDriver } from './control-plane-driver.ts';

const never = new AbortController().signal;
/** Everything on this node that only a control plane may have. */
const SHARED_KEYS = [
  ...new Set([
    ...Object.values(CONTROL_PLANE_KEY_FILES),
    ...[
      `${AGENT_PATHS.ca}/ca.key`,
      AGENT_PATHS.rotation,
      AGENT_PATHS.newKeys,
      AGENT_PATHS.curatorKey,
      AGENT_PATHS.diskShares,
    ],
    PATHS.encryption,
  ]),
];

async function prepare(disk: MemoryFiles): Promise<void> {
  await disk.makeDirectory('/var/lib/cluster/kubernetes');
  for (const path of SHARED_KEYS) {
    await disk.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await disk.writeAtomic(path, 'key');
  }
}

/** A driver on a member of the cluster, unless `isMember` is false. Etcd does not run. */
function createDriver(
  files: FilePort,
  over: { readonly isMember?: boolean; readonly addresses?: readonly string[] } = {},
) {
  const units = new FakeUnits();
  units.active.add(JOINSERVICE_UNIT);
  const ports = {
    ...{ files, units, clock: new FakeClock(), commands: new FakeCommands(), log: createMemoryLogger().log },
  };
  const store = new RoleValueStore();
  const { clusterMembership } = store.claim('clusterMembership');
  if (over.isMember !== false) clusterMembership.set(membership);
  const unused = (): never => {
    throw new Error('not needed here');
  };
  const driver = new MachineControlPlaneDriver(
    {
      ...ports,
      state: createNodeState(files),
      retire: {
        ...{ ...ports, checkpoints: new StepCheckpoints(files) },
        isListening: () => Promise.resolve(false),
      },
    },
    {
      machine: { nodeId: membership.nodeId } as never,
      evidence: { variant: 'machine-key', readEnrolment: unused, readLockCounter: unused },
      owners: [{ name: 'owner', pubKeyDer: new Uint8Array() }],
      lifetimes: () => ({ controlPlaneMinutes: 1440 }) as never,
      blobStores: ['/blobs'],
      ownAddress: () => membership.nodeAddress,
      values: store.values,
      addresses: () => over.addresses ?? [membership.nodeAddress],
      isKeyChangePending: () => Promise.resolve(false),
      snapshots: unused as never,
    },
  );
  return { driver, units };
}

async function leftOn(disk: MemoryFiles): Promise<readonly string[]> {
  const stats = await Promise.all(SHARED_KEYS.map((path) => disk.stat(path)));
  return SHARED_KEYS.filter((_, index) => stats[index] !== undefined);
}

test('stop() leaves no shared key and no key of the curator on a node that has lost the role', async () => {
  const disk = new MemoryFiles();
  await prepare(disk);
  expect(await leftOn(disk)).toEqual(SHARED_KEYS);
  const { driver, units } = createDriver(disk);
  await driver.stop(never);
  expect(await leftOn(disk)).toEqual([]);
  expect(units.moves).toContain(`stop ${JOINSERVICE_UNIT}`);
});

test('stop() completes a stop that was killed before or after any of its writes', async () => {
  let faults = 0;
  for await (const { name, disk } of everyFault({
    faults: ['crash-before', 'crash-after'],
    prepare,
    run: (files) => createDriver(files).driver.stop(never),
  })) {
    faults++;
    await createDriver(disk).driver.stop(never);
    expect([name, await leftOn(disk)]).toEqual([name, []]);
  }
  expect(faults).toBeGreaterThan(SHARED_KEYS.length);
});

test('stop() deletes the files of a key rotation first, because an agent that starts in between would restore the other keys from these files', async () => {
  const disk = new MemoryFiles();
  await prepare(disk);
  const seen: (readonly string[])[] = [];
  const removed = disk.remove.bind(disk);
  disk.remove = async (path) => {
    await removed(path);
    seen.push(await leftOn(disk));
  };
  await createDriver(disk).driver.stop(never);
  const isLeft = (left: readonly string[], path: string): boolean => left.includes(path);
  const withoutCa = seen.filter((left) => !isLeft(left, `${PATHS.pki}/ca.key`));
  expect(withoutCa.length).toBeGreaterThan(0);
  for (const left of withoutCa) expect(isLeft(left, AGENT_PATHS.rotation)).toBe(false);
});

test('stop() changes nothing on a machine that is no member', async () => {
  const disk = new MemoryFiles();
  await prepare(disk);
  const { driver, units } = createDriver(disk, { isMember: false });
  await driver.stop(never);
  await driver.checkStop(never);
  expect(await leftOn(disk)).toEqual(SHARED_KEYS);
  expect(units.moves).toEqual([]);
});

test('startConsensus() refuses an address that this machine does not have, and starts nothing', async () => {
  const { driver, units } = createDriver(new MemoryFiles(), { addresses: ['198.18.0.99'] });
  for (const start of [
    { kind: 'serve' as const, membership },
    { kind: 'bootstrap' as const, data: bootstrap },
  ])
    await expect(driver.startConsensus(start, () => undefined, never)).rejects.toMatchObject({
      code: 'preflight-address-changed',
    });
  expect([...units.installed.keys(), ...units.moves]).toEqual([]);
  expect(driver.etcdMembers()).toBeUndefined();
});

test('a cluster and its CA are created only while etcd runs', async () => {
  const disk = new MemoryFiles();
  const { driver } = createDriver(disk);
  await expect(driver.createCluster(bootstrap, never)).rejects.toThrow('running etcd expected');
  await expect(driver.loadOwnership(never)).rejects.toThrow('running etcd expected');
  expect(await disk.stat(AGENT_PATHS.ca)).toBeUndefined();
});

test('the renewals do nothing while etcd does not run', async () => {
  const { driver, units } = createDriver(new MemoryFiles());
  await driver.renewCurator(never);
  await driver.renewConsensus(never);
  expect([...units.installed.keys(), ...units.moves]).toEqual([]);
});
