import { expect, test } from '@jest/globals';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { createClient, localUpgrade, RpcChannel } from '../../internal/rpc/index.ts';
import {
  createMemoryLogger,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settle,
} from '../../internal/testing/index.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import { temporaryDirectory } from '../../internal/testing/host/temporary-directory.ts';
import { Machine } from '../../initproto/gen/machine_pb.js';
import { ChecksummedFile, type Membership, type RemovalRecord } from '../membership/index.ts';
import { removalRunnable } from './removal-runnable.ts';
import { runRemoved } from './run-removed.ts';

const PATH = '/var/lib/cluster/membership/removed.json';
const names = { clusterId: 'c1', clusterName: 'blue', nodeId: 'node-1', nodeName: 'w1' };
const removal: RemovalRecord = { ...names, foundMs: 0 };

test('removalRunnable() saves the removal before it ends the agent', async () => {
  const removed = new ChecksummedFile<RemovalRecord>(new MemoryFiles(), PATH);
  const isRemoved = new EventValue<boolean>();
  isRemoved.set(false);
  const clusterMembership = new EventValue<Membership | undefined>();
  clusterMembership.set(names as Membership);
  const ended: unknown[] = [];
  const runnable = removalRunnable({
    curators: { removed: isRemoved },
    reads: { clusterMembership },
    state: { removed },
    clock: { nowMs: () => 7 },
    end: (reason) => void ended.push(reason),
  });
  await using _tree = superviseForTest(runnable);
  await settle();
  expect([ended, await removed.load()]).toEqual([[], undefined]);
  isRemoved.set(true);
  await settle();
  expect(ended).toMatchObject([{ code: 'removal-found' }]);
  expect(await removed.load()).toEqual({ ...names, foundMs: 7 });
});

test('runRemoved() stops all units of the node, and reports on console, socket and systemd status that the machine was removed', async () => {
  await using directory = await temporaryDirectory();
  const socket = join(directory.path, 'agent.sock');
  const files = new MemoryFiles();
  const units = new FakeUnits();
  for (const unit of [
    'kubelet.service',
    'kubepods.slice',
    'cluster-etcd-state.service',
    'cluster-containerd.service',
  ])
    units.active.add(unit);
  const stop = new AbortController();
  const ready = Promise.withResolvers<string>();
  const ports = {
    ...{ files, units, commands: new FakeCommands(), clock: new SystemClock(), random: Math.random },
    log: createMemoryLogger().log,
  };
  const onReady = async (status: string): Promise<void> => {
    expect([...units.active]).toEqual([]);
    ready.resolve(status);
  };
  const ended = runRemoved(ports, removal, { onReady, signal: stop.signal, socket });
  expect(await ready.promise).toMatch(/^removed: this machine was node w1 of cluster blue.*Fix: .*reset it/);
  const call = { signal: AbortSignal.timeout(10_000) };
  while (!existsSync(socket) && !call.signal.aborted) await new Promise((resolve) => setImmediate(resolve));
  using channel = new RpcChannel({ endpoint: `unix:${socket}`, upgrade: localUpgrade });
  const machine = createClient(Machine, channel);
  const refused = expect.objectContaining({ code: 'removal-removed', retryable: false });
  await expect(machine.direct({ endpoints: [] }, call)).rejects.toEqual(refused);
  await expect(machine.watchEnrolment({}, call)[Symbol.asyncIterator]().next()).rejects.toEqual(refused);
  await expect(machine.recoverQuorum({ clusterName: 'blue' }, call)).rejects.toEqual(refused);
  const shown = Buffer.from((await files.read('/run/issue.d/60-cluster.issue', 1000)) ?? []).toString();
  expect(shown).toContain('was node w1 of cluster blue, which has removed it');
  stop.abort(new Error('stopped'));
  await ended;
});
