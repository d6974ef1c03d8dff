import { describe, expect, test } from '@jest/globals';
import { consensusLayout } from '../consensus/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
} from '../../internal/testing/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { NodeState } from './node-state.ts';
import { PLACES } from './places.ts';
import { carryOutWaitingRecovery, RecoveryDesk } from './recovery.ts';

const never = new AbortController().signal;
const layout = consensusLayout(PLACES.state, 'state');
const membership: Membership = {
  ...{ clusterId: 'c0ffee', clusterName: 'blue', clusterCaPem: 'CA', epoch: 1, nodeId: 'node-1' },
  ...{ nodeName: 'cp1', nodeAddress: '192.0.2.1', nodeCertPem: 'CERT', directory: [] },
};

async function createMachine(isControlPlane = true) {
  const files = new MemoryFiles();
  await files.makeDirectory(PLACES.membership.slice(0, PLACES.membership.lastIndexOf('/')));
  await new NodeState(files).membership.save(membership);
  if (isControlPlane) await files.makeDirectory(layout.memberData);
  const ports = {
    ...{ files, commands: new FakeCommands(), units: new FakeUnits(), clock: new FakeClock() },
    log: createMemoryLogger().log,
  };
  const desk = new RecoveryDesk(ports, { membership: () => membership, directory: () => undefined });
  return { files, ports, desk };
}

describe('an order to recover the quorum', () => {
  test('names the cluster, is on disk before it is answered, and ends the agent', async () => {
    const { files, desk } = await createMachine();
    await desk.order('blue');
    expect(await files.stat(PLACES.recoveryOrder)).toBeDefined();
    expect(desk.ordered.peek()).toEqual({ set: true, value: true });
  });

  test('for another cluster is refused', async () => {
    const { files, desk } = await createMachine();
    await expect(desk.order('green')).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    expect(await files.stat(PLACES.recoveryOrder)).toBeUndefined();
    expect(desk.ordered.peek()).toEqual({ set: true, value: false });
  });

  test('is refused where there is no data of etcd', async () => {
    const { desk } = await createMachine(false);
    await expect(desk.order('blue')).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
    await expect(desk.survey(never)).rejects.toMatchObject({ code: 'consensus-not-recoverable' });
  });

  test('that can not be carried out is given up with its reason, and nothing was changed', async () => {
    const { files, ports, desk } = await createMachine();
    await desk.order('blue');
    await carryOutWaitingRecovery(ports, never); // without etcd's keys nobody can be asked anything
    expect(await files.stat(PLACES.recoveryOrder)).toBeUndefined();
    expect(Buffer.from((await files.read(PLACES.recoveryFailure, 4096)) ?? []).toString()).toMatch(
      /client\.crt/,
    );
    expect(await files.stat(layout.memberData)).toBeDefined();
    expect(ports.units.moves).toEqual([]);
  });

  test('that stopped half way stays: the next start completes it', async () => {
    const { files, ports, desk } = await createMachine();
    await desk.order('blue');
    await files.makeDirectory(layout.root);
    await files.createExclusive(layout.recoveryMark, '2\n');
    await expect(carryOutWaitingRecovery(ports, never)).rejects.toThrow();
    expect(await files.stat(PLACES.recoveryOrder)).toBeDefined();
  });

  test('without an order nothing happens', async () => {
    const { ports } = await createMachine();
    await carryOutWaitingRecovery(ports, never);
    expect(ports.commands.runs).toEqual([]);
  });
});
