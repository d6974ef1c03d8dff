import { expect, test } from '@jest/globals';
import { HOUR_MS, MINUTE_MS } from '../../../internal/clock/index.ts';
import { FakeClock, superviseForTest } from '../../../internal/testing/index.ts';
import { ContentMonitor } from './content-monitor.ts';
import { FakeHashes } from './fake-hashes.ts';

/** A monitor whose Kubernetes etcd has these hashes. The state etcd has one member. */
function create(...hashes: readonly number[]) {
  const clock = new FakeClock();
  const etcds = { state: new FakeHashes(1), kubernetes: new FakeHashes(...hashes) };
  let isRunning = true;
  const monitor = new ContentMonitor({
    clock,
    members: () => (isRunning ? { state: etcds.state.own, kubernetes: etcds.kubernetes.own } : undefined),
    connect: (name, endpoint) => etcds[name].connect(endpoint),
  });
  const tree = superviseForTest(monitor.run, { clock });
  const startedMs = clock.nowMs();
  return { clock, monitor, tree, startedMs, etcd: etcds.kubernetes, stop: () => (isRunning = false) };
}

test('ContentMonitor compares five minutes after its start, then every hour', async () => {
  const { clock, monitor, tree, etcd, startedMs } = create(7, 8, 7);
  await using _ = tree;
  expect(monitor.contents()?.kubernetes).toMatchObject({ sinceMs: startedMs, compared: undefined });
  await clock.advance(5 * MINUTE_MS - 1);
  expect(etcd.asked).toEqual([]);
  await clock.advance(1);
  expect(etcd.asked).toHaveLength(3);
  expect(monitor.contents()).toMatchObject({
    state: { sinceMs: startedMs, compared: undefined, isLeader: true },
    kubernetes: {
      ...{ sinceMs: startedMs, isLeader: true },
      compared: { atMs: startedMs + 5 * MINUTE_MS, agreeing: ['id-1', 'id-3'], differing: ['id-2'] },
    },
  });
  await clock.advance(HOUR_MS - 1);
  expect(etcd.asked).toHaveLength(3);
  await clock.advance(1);
  expect(etcd.asked).toHaveLength(6);
});

test('ContentMonitor compares only while its member is the leader, and soon after it has become the leader', async () => {
  const { clock, monitor, tree, etcd } = create(7, 7, 7);
  await using _ = tree;
  etcd.leader = 2n;
  await clock.advance(2 * HOUR_MS);
  expect(etcd.asked).toEqual([]);
  expect(monitor.contents()?.kubernetes.isLeader).toBe(false);
  etcd.leader = 1n;
  await clock.advance(5 * MINUTE_MS);
  expect(etcd.asked).toHaveLength(3);
  etcd.leader = 2n;
  await clock.advance(5 * MINUTE_MS);
  expect(monitor.contents()?.kubernetes).toMatchObject({
    isLeader: false,
    compared: { agreeing: { length: 3 } },
  });
});

test('ContentMonitor compares again when a member was replaced, and leaves learners out', async () => {
  const { clock, monitor, tree, etcd } = create(7, 8, 7);
  await using _ = tree;
  await clock.advance(5 * MINUTE_MS);
  expect(monitor.contents()?.kubernetes.compared?.differing).toEqual(['id-2']);
  etcd.members[1]!.hash = 7;
  etcd.generation = 10n;
  etcd.learners = 1;
  await clock.advance(5 * MINUTE_MS);
  expect(monitor.contents()?.kubernetes.compared).toMatchObject({
    agreeing: ['id-1', 'id-2'],
    differing: [],
  });
  expect(etcd.asked.filter((each) => each.startsWith('3'))).toHaveLength(1);
});

test('ContentMonitor waits an hour after a comparison that failed, and keeps the last result', async () => {
  const { clock, monitor, tree, etcd } = create(7, 7);
  await using _ = tree;
  await clock.advance(5 * MINUTE_MS);
  const before = monitor.contents()?.kubernetes.compared;
  etcd.members[0]!.refusals = 1;
  await clock.advance(HOUR_MS);
  expect(etcd.asked).toHaveLength(3);
  expect(monitor.contents()?.kubernetes.compared).toEqual(before);
  await clock.advance(HOUR_MS - 1);
  expect(etcd.asked).toHaveLength(3);
  await clock.advance(1);
  expect(etcd.asked).toHaveLength(5);
});

test('ContentMonitor forgets its results on a node that is no control plane any more', async () => {
  const { clock, monitor, tree, stop } = create(7, 8, 7);
  await using _ = tree;
  await clock.advance(5 * MINUTE_MS);
  stop();
  expect(monitor.contents()).toBeUndefined();
  await clock.advance(2 * HOUR_MS);
  expect(monitor.contents()).toBeUndefined();
});
