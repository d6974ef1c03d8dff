import { expect, test } from '@jest/globals';
import { FakeClock } from '../../internal/testing/index.ts';
import { KubernetesEtcdHealth } from './kubernetes-etcd-health.ts';

const signal = new AbortController().signal;
const GIB = 1024 ** 3;

function create(controlPlanes: string[] = ['node-a']) {
  const clock = new FakeClock();
  const etcdState = { leaderId: 7n, dbSizeBytes: 1, errors: [] as string[] };
  const now = { members: ['node-a'], learner: '', ...etcdState, asked: 0, isDown: false };
  const etcd = {
    maintenance: {
      status: () => {
        now.asked++;
        if (now.isDown) return Promise.reject(new Error('unavailable'));
        return Promise.resolve({
          leaderId: now.leaderId,
          dbSizeBytes: now.dbSizeBytes,
          quotaBytes: 4 * GIB,
          errors: now.errors,
        });
      },
    },
    members: {
      list: () =>
        Promise.resolve(now.members.map((name) => ({ id: 1n, name, isLearner: name === now.learner }))),
    },
  } as never;
  let isRunning = true;
  const health = new KubernetesEtcdHealth({
    etcd: () => (isRunning ? etcd : undefined),
    controlPlanes: () => controlPlanes,
    clock,
  });
  return { clock, now, health, controlPlanes, stop: () => (isRunning = false) };
}

test('check() reads the status of a healthy etcd every 20 s and reports the size of etcd in steps of 1/64 of the quota', async () => {
  const { clock, now, health } = create();
  const first = await health.check(signal);
  expect(first).toMatchObject({ dbSizeBytes: GIB / 16, quotaBytes: 4 * GIB, hasLeader: true });
  now.dbSizeBytes = 1024 ** 2;
  expect(await health.check(signal)).toBe(first);
  await clock.advance(20_000);
  expect(await health.check(signal)).toEqual(first);
  expect(now.asked).toBe(2);
});

test.each([
  {
    name: 'a control plane is not a member yet',
    change: ({ controlPlanes }: Given) => controlPlanes.push('node-b'),
  },
  { name: 'a removed node is still a member', change: ({ now }: Given) => now.members.push('node-b') },
  { name: 'a member is a learner', change: ({ now }: Given) => (now.learner = 'node-a') },
  { name: 'there is no leader', change: ({ now }: Given) => (now.leaderId = 0n) },
])('check() reads the status of etcd at each call while $name', async ({ change }) => {
  const given = create();
  change(given);
  for (let times = 0; times < 3; times++) await given.health.check(signal);
  expect(given.now.asked).toBe(3);
});

test('check() reports a member that does not answer as without a leader, with the previous members', async () => {
  const { clock, now, health } = create();
  await health.check(signal);
  now.isDown = true;
  await clock.advance(20_000);
  expect(await health.check(signal)).toMatchObject({ hasLeader: false, members: [{ name: 'node-a' }] });
});

test('check() reports nothing where no member runs', async () => {
  const { health, stop } = create();
  stop();
  expect(await health.check(signal)).toBeUndefined();
});

type Given = ReturnType<typeof create>;

test.each([
  { name: 'refuses writes because its quota is used up', alarm: 'NOSPACE', want: 'isFull' },
  { name: 'refuses everything because its members differ', alarm: 'CORRUPT', want: 'isCorrupt' },
])('check() reports an etcd that $name', async ({ alarm, want }) => {
  const { now, health, clock } = create();
  const fine = { isFull: false, isCorrupt: false };
  expect(await health.check(signal)).toMatchObject(fine);
  now.errors = [`memberID:10276657743932975437 alarm:${alarm} `];
  await clock.advance(20_000);
  expect(await health.check(signal)).toMatchObject({ ...fine, [want]: true });
});
