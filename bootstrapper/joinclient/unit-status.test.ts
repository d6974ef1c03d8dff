import { afterEach, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  FakeClock,
  opened,
  superviseForTest,
} from '../../internal/testing/index.ts';
import type { JoinStatus } from './join-status.ts';
import { unitStatus, unitStatusRunnable } from './unit-status.ts';

afterEach(closeOpened);

const problem = {
  ...{ code: 'joinclient-owner-unknown', message: 'cluster c1 has unknown owner rdUh…' },
  ...{ fix: 'Add the owner.', exit: 'refused', timeMs: 1 },
};
const endpoints = ['10.0.0.1:9090'];
const waiting: JoinStatus = {
  ...{ kind: 'waiting', endpoint: '10.0.0.1:9090', clusterId: 'c1', clusterName: 'prod', joinId: 'node-1' },
  ...{ code: 'join-pending', message: 'an operator must approve it', fingerprint: '', sinceMs: 1 },
  ...{ position: 0, estimateMs: 0 },
};

test.each<{ status: JoinStatus; want: string }>([
  { status: { kind: 'idle' }, want: '' },
  {
    status: { kind: 'asking', endpoints, sinceMs: 1, lastError: undefined },
    want: '; asks 10.0.0.1:9090 to let it join',
  },
  {
    status: { kind: 'asking', endpoints, sinceMs: 1, lastError: problem },
    want: '; asks 10.0.0.1:9090 to let it join; last error: joinclient-owner-unknown: cluster c1 has unknown owner rdUh…. Fix: Add the owner.',
  },
  { status: waiting, want: '; waits for cluster prod: an operator must approve it' },
  {
    status: { kind: 'refused', endpoint: '10.0.0.1:9090', problem },
    want: '; refused by 10.0.0.1:9090: joinclient-owner-unknown: cluster c1 has unknown owner rdUh…. Fix: Add the owner.',
  },
  {
    // The refusal of a cluster names only its code.
    status: {
      ...{ kind: 'asking', endpoints, sinceMs: 1 },
      lastError: { ...problem, code: 'join-decommissioned', message: 'join-decommissioned', fix: '' },
    },
    want: '; asks 10.0.0.1:9090 to let it join; last error: join-decommissioned. Fix: run `cluster explain` with the name or address of this machine at a workstation',
  },
  {
    status: { kind: 'admitted', clusterId: 'c1', nodeName: 'n1', roles: [] },
    want: '; admitted to cluster c1 as n1',
  },
  { status: { kind: 'joined', clusterId: 'c1', nodeName: 'n1' }, want: '' },
])(
  'unitStatus() begins with the fingerprint and says why the machine is not a member: $want',
  ({ status, want }) => {
    expect(unitStatus('sha256:ab', status)).toBe(`fingerprint sha256:ab${want}`);
  },
);

/** A runnable that sends lines to `sent`, on a machine where the first line cannot be sent. */
function start(isMember = false) {
  const clock = new FakeClock(1);
  const status = new EventValue<JoinStatus>();
  status.set({ kind: 'idle' });
  const isReady = new EventValue<boolean>();
  const { log, records } = createMemoryLogger();
  const tried: string[] = [];
  let starts = 0;
  const runnable = unitStatusRunnable({
    ...{ fingerprint: 'sha256:ab', joinClient: { status }, isReady, isMember: () => isMember, log },
    onStatus: async (text) => {
      tried.push(text);
      if (tried.length === 1) await Promise.reject(new Error('systemd-notify timed out'));
    },
  });
  opened(
    superviseForTest(
      async (scope) => {
        scope.run('unitstatus', async (own) => {
          starts++;
          await runnable(own);
        });
        scope.healthy();
        await untilAborted(scope.signal);
      },
      { clock },
    ),
  );
  const set = async (next: JoinStatus): Promise<void> => {
    status.set(next);
    await clock.advance(60_000);
  };
  const ready = () => isReady.set(true);
  return { set, tried, records, ready, starts: () => starts };
}

test('unitStatusRunnable() sends each new line once, and restarts nothing when a line cannot be sent', async () => {
  const { set, tried, records, ready, starts } = start();
  const refused = { kind: 'refused', endpoint: '10.0.0.1:9090', problem } as const;
  await set(refused);
  expect(tried).toEqual([]); // the start of the agent has not sent its line yet
  await set({ kind: 'idle' });
  ready();
  await set({ kind: 'idle' });
  expect(tried).toEqual([]); // the start of the agent has sent it
  await set(refused);
  await set({ ...refused, problem: { ...problem, timeMs: 2 } });
  await set({ ...refused, problem: { ...problem, timeMs: 3 } });
  const line = unitStatus('sha256:ab', refused);
  expect(tried).toEqual([line, line]); // the first one failed
  expect(records.map(({ message }) => message)).toContain('status not sent to systemd');
  expect(starts()).toBe(1);
});

test('unitStatusRunnable() does not follow the renewals of a member', async () => {
  const { set, tried, ready } = start(true);
  ready();
  await set({ kind: 'asking', endpoints, sinceMs: 1, lastError: problem });
  expect(tried).toEqual([]);
});
