import { describe, expect, test } from '@jest/globals';
import { consensusLayout } from '../consensus/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
} from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { createFakeRoleValues } from '../roleserve/fake-role-values.ts';
import { RecoveryService, runPendingRecovery } from './recovery.ts';

const never = new AbortController().signal;
const layout = consensusLayout(AGENT_PATHS.state, 'state');
const membership: Membership = {
  ...{ clusterId: 'c0ffee', clusterName: 'blue', clusterCaPem: 'CA', epoch: 1, nodeId: 'node-1' },
  ...{ nodeName: 'cp1', nodeAddress: '192.0.2.1', nodeCertPem: 'CERT', directory: [] },
};

async function createMachine(isControlPlane = true) {
  const files = new MemoryFiles();
  await files.makeDirectory(AGENT_PATHS.membership.slice(0, AGENT_PATHS.membership.lastIndexOf('/')));
  await createNodeState(files).membership.save(membership);
  if (isControlPlane) await files.makeDirectory(layout.memberData);
  const ports = {
    ...{ files, commands: new FakeCommands(), units: new FakeUnits(), clock: new FakeClock() },
    log: createMemoryLogger().log,
  };
  const reads = createFakeRoleValues();
  reads.clusterMembership.set(membership);
  const service = new RecoveryService({ ...ports, reads });
  return { files, ports, service };
}

describe('an order to recover the quorum', () => {
  test('for this cluster is on disk before it is answered, and ends the agent', async () => {
    const { files, service } = await createMachine();
    await service.order('blue', false);
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeDefined();
    expect(service.ordered.peek()).toEqual({ set: true, value: true });
  });

  test('for another cluster is refused', async () => {
    const { files, service } = await createMachine();
    await expect(service.order('green', false)).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeUndefined();
    expect(service.ordered.peek()).toEqual({ set: true, value: false });
  });

  test('is refused without etcd data', async () => {
    const { service } = await createMachine(false);
    await expect(service.order('blue', false)).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    await expect(service.survey(never)).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
  });

  test('that cannot be carried out is dropped with its reason, and nothing is changed', async () => {
    const { files, ports, service } = await createMachine();
    await service.order('blue', false);
    await runPendingRecovery(ports, never); // without the keys of etcd, no member answers
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeUndefined();
    expect(Buffer.from((await files.read(AGENT_PATHS.recoveryFailure, 4096)) ?? []).toString()).toMatch(
      /client\.crt/,
    );
    expect(await files.stat(layout.memberData)).toBeDefined();
    expect(ports.units.moves).toEqual([]);
  });

  test('that was interrupted is completed by the next start', async () => {
    const { files, ports, service } = await createMachine();
    await service.order('blue', false);
    await files.makeDirectory(layout.root);
    await files.createExclusive(layout.recoveryMarker, '2\n');
    await expect(runPendingRecovery(ports, never)).rejects.toThrow();
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeDefined();
  });

  test('runPendingRecovery() does nothing without an order', async () => {
    const { ports } = await createMachine();
    await runPendingRecovery(ports, never);
    expect(ports.commands.runs).toEqual([]);
  });
});
