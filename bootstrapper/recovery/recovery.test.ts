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
import { AGENT_PATHS, NodeState } from '../nodestate/index.ts';
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
  await new NodeState(files).membership.save(membership);
  if (isControlPlane) await files.makeDirectory(layout.memberData);
  const ports = {
    ...{ files, commands: new FakeCommands(), units: new FakeUnits(), clock: new FakeClock() },
    log: createMemoryLogger().log,
  };
  const desk = new RecoveryService(ports, { membership: () => membership, directory: () => undefined });
  return { files, ports, desk };
}

describe('a request to recover the quorum', () => {
  test('must name the cluster, is on disk before the response, and ends the agent', async () => {
    const { files, desk } = await createMachine();
    await desk.order('blue');
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeDefined();
    expect(desk.ordered.peek()).toEqual({ set: true, value: true });
  });

  test('is refused for another cluster', async () => {
    const { files, desk } = await createMachine();
    await expect(desk.order('green')).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeUndefined();
    expect(desk.ordered.peek()).toEqual({ set: true, value: false });
  });

  test('is refused on a machine without etcd data', async () => {
    const { desk } = await createMachine(false);
    await expect(desk.order('blue')).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    await expect(desk.survey(never)).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
  });

  test('is dropped with its reason if it cannot be carried out, and nothing is changed', async () => {
    const { files, ports, desk } = await createMachine();
    await desk.order('blue');
    await runPendingRecovery(ports, never); // without etcd keys, no member can be asked
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeUndefined();
    expect(Buffer.from((await files.read(AGENT_PATHS.recoveryFailure, 4096)) ?? []).toString()).toMatch(
      /client\.crt/,
    );
    expect(await files.stat(layout.memberData)).toBeDefined();
    expect(ports.units.moves).toEqual([]);
  });

  test('stays on disk if it failed half way, and the next start completes it', async () => {
    const { files, ports, desk } = await createMachine();
    await desk.order('blue');
    await files.makeDirectory(layout.root);
    await files.createExclusive(layout.recoveryMarker, '2\n');
    await expect(runPendingRecovery(ports, never)).rejects.toThrow();
    expect(await files.stat(AGENT_PATHS.recoveryOrder)).toBeDefined();
  });

  test('does nothing if there is no request', async () => {
    const { ports } = await createMachine();
    await runPendingRecovery(ports, never);
    expect(ports.commands.runs).toEqual([]);
  });
});
