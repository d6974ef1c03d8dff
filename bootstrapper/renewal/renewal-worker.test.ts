import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, settle } from '../../internal/testing/fake-clock.ts';
import { type CertificateTimes, renewalTimeOf } from '../../internal/pki/index.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import type { Membership } from '../membership/index.ts';
import type { RoleSet } from '../roleserve/index.ts';
import { type Renewal, renewalWorker } from './renewal-worker.ts';

const DAY_MS = 24 * 3600 * 1000;
const membership = { nodeId: 'node-1' } as Membership;

describe('renewalTimeOf()', () => {
  test.each([
    { name: 'a node certificate of seven days', days: 7, want: 4.66 },
    { name: 'a kubelet certificate of one year', days: 365, want: 243.3 },
  ])('$name is due at two thirds of its lifetime', ({ days, want }) => {
    expect(renewalTimeOf({ issuedMs: 0, notAfterMs: days * DAY_MS }) / DAY_MS).toBeCloseTo(want, 1);
  });
});

function createWorker(first: CertificateTimes, others: Readonly<Record<string, Renewal>> = {}) {
  const clock = new FakeClock();
  const startMs = clock.nowMs();
  const clusterMembership = new EventValue<Membership | undefined>();
  clusterMembership.set(membership);
  const localRoles = new EventValue<RoleSet | undefined>();
  const isDue = new EventValue<boolean>();
  localRoles.set(undefined);
  const state = {
    times: { issuedMs: startMs, notAfterMs: startMs + first.notAfterMs },
    renewedAtMs: [] as number[],
    fail: 0,
  };
  const root = renewalWorker({
    reads: { clusterMembership, localRoles },
    clock,
    renewals: {
      ...others,
      test: {
        name: 'test',
        isDue,
        certificateTimes: () => Promise.resolve([state.times]),
        prepare: () => {
          if (state.fail-- > 0) return Promise.reject(new Error('nobody answers'));
          return Promise.resolve(() => {
            state.renewedAtMs.push(clock.nowMs() - startMs);
            state.times = { issuedMs: clock.nowMs(), notAfterMs: clock.nowMs() + first.notAfterMs };
            isDue.set(false);
            return Promise.resolve();
          });
        },
      },
    },
  });
  return { clock, root, state, isDue, localRoles };
}

/** Advances the clock in steps, so that timers can be set again in between. */
async function pass(clock: FakeClock, ms: number, stepMs: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    await settle();
    await clock.advance(stepMs);
  }
  await settle();
}

describe('renewalWorker()', () => {
  test('renews repeatedly at two thirds of the validity', async () => {
    const { clock, root, state } = createWorker({ issuedMs: 0, notAfterMs: 3 * 3600_000 });
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 5 * 3600_000, 5 * 60_000);
    expect(state.renewedAtMs.map((ms) => Math.round(ms / 3600_000))).toEqual([2, 4]);
  });

  test('a group that is due for another reason is renewed at once, and once', async () => {
    const { clock, root, state, isDue } = createWorker({ issuedMs: 0, notAfterMs: 30 * DAY_MS });
    isDue.set(false);
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 2_000, 1_000);
    expect(state.renewedAtMs).toEqual([]);
    isDue.set(true);
    await pass(clock, 5_000, 1_000);
    expect(state.renewedAtMs).toHaveLength(1);
  });

  test('a certificate that expired while the machine was off is renewed at once', async () => {
    const { clock, root, state } = createWorker({ issuedMs: 0, notAfterMs: 3600_000 });
    state.times = { issuedMs: clock.nowMs() - 10 * DAY_MS, notAfterMs: clock.nowMs() - DAY_MS };
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 2_000, 1_000);
    expect(state.renewedAtMs).toHaveLength(1);
  });

  test('a change of roles makes the worker check the certificates at once', async () => {
    const { clock, root, state, localRoles } = createWorker({ issuedMs: 0, notAfterMs: 30 * DAY_MS });
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 2_000, 1_000);
    state.times = { issuedMs: 0, notAfterMs: 0 };
    localRoles.set(new Set(['ConsensusMember']));
    await pass(clock, 2_000, 1_000);
    expect(state.renewedAtMs).toHaveLength(1);
  });

  test('retries a failed renewal', async () => {
    const { clock, root, state } = createWorker({ issuedMs: 0, notAfterMs: 3600_000 });
    state.fail = 3;
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 45 * 60_000, 30_000);
    expect(state.renewedAtMs).toHaveLength(1);
  });

  test('shows in its status what a renewal has found to be wrong', async () => {
    const wrong: Renewal = {
      name: 'wrong',
      certificateTimes: () => Promise.resolve([]),
      prepare: () => Promise.reject(new Error('never due')),
      problem: () => 'the secret is another one',
    };
    const { clock, root } = createWorker({ issuedMs: 0, notAfterMs: 30 * DAY_MS }, { wrong });
    await using tree = superviseForTest(root, { clock });
    await pass(clock, 2_000, 1_000);
    const notes = tree.tree().map(({ path, note }) => [path.split('.').at(-1), note]);
    expect(Object.fromEntries(notes)).toMatchObject({ wrong: 'the secret is another one', test: undefined });
  });

  test('after one renewal, the other renewals check their certificates at once', async () => {
    const looks: number[] = [];
    const idle: Renewal = {
      name: 'idle',
      certificateTimes: () => (looks.push(clock.nowMs() - startMs), Promise.resolve([])),
      prepare: () => Promise.reject(new Error('never due')),
    };
    const { clock, root, state } = createWorker({ issuedMs: 0, notAfterMs: 6 * 60_000 }, { idle });
    const startMs = clock.nowMs();
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 5 * 60_000, 10_000);
    expect(state.renewedAtMs).toEqual([4 * 60_000]);
    expect(looks).toEqual([0, 4 * 60_000]);
  });

  const due = () => Promise.resolve([{ issuedMs: 0, notAfterMs: 0 }]);
  const broken: readonly (Omit<Renewal, 'name'> & { readonly how: string })[] = [
    { how: 'that is refused', certificateTimes: due, prepare: () => Promise.reject(new Error('refused')) },
    {
      how: 'that cannot be activated',
      certificateTimes: due,
      prepare: () => Promise.resolve(() => Promise.reject(new Error('disk full'))),
    },
    {
      how: 'whose dates cannot be read',
      certificateTimes: () => Promise.reject(new Error('damaged')),
      prepare: () => Promise.reject(new Error('not reached')),
    },
    { how: 'that waits for a quorum', certificateTimes: due, prepare: (signal) => untilAborted(signal) },
  ];
  test.each(broken)(
    'a renewal $how does not stop the other renewals',
    async ({ certificateTimes: times, prepare }) => {
      const { clock, root, state } = createWorker(
        { issuedMs: 0, notAfterMs: 3 * 3600_000 },
        { broken: { name: 'broken', certificateTimes: times, prepare } },
      );
      await using _tree = superviseForTest(root, { clock });
      await pass(clock, 3 * 3600_000, 5 * 60_000);
      expect(state.renewedAtMs.map((ms) => Math.round(ms / 3600_000))).toEqual([2]);
    },
  );

  test('activates one renewal at a time', async () => {
    const events: string[] = [];
    const slow = (name: string): Renewal => {
      let isDue = true;
      return {
        name,
        certificateTimes: () => (isDue ? due() : Promise.resolve([])),
        prepare: () =>
          Promise.resolve(async () => {
            events.push(`${name} begins`);
            await settle();
            isDue = false;
            events.push(`${name} ends`);
          }),
      };
    };
    const { clock, root } = createWorker(
      { issuedMs: 0, notAfterMs: 30 * DAY_MS },
      { first: slow('first'), second: slow('second') },
    );
    await using _tree = superviseForTest(root, { clock });
    await pass(clock, 5_000, 1_000);
    expect(events).toEqual(['first begins', 'first ends', 'second begins', 'second ends']);
  });
});
