import { beforeEach, describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../../internal/testing/fake-clock.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import { PhaseLog, type RecordedEvent } from '../phases/index.ts';
import { ownAddressRunnable, untilAddress } from './own-address.ts';

const OWN = '198.18.0.11';
const OTHER = '198.18.0.66';

let clock: FakeClock;
let now: {
  addresses: readonly string[];
  bound: string | undefined;
  isInitUnderWay: boolean;
  hurries: number;
};
let events: RecordedEvent[];
beforeEach(() => {
  clock = new FakeClock();
  now = { addresses: [OWN], bound: OWN, isInitUnderWay: false, hurries: 0 };
  events = [];
});

async function supervised() {
  const store = {
    load: () => Promise.resolve([]),
    append: async (event: RecordedEvent) => void events.push(event),
  };
  const phases = await PhaseLog.open({ store, clock, log: createMemoryLogger().log });
  const tree = superviseForTest(
    ownAddressRunnable({
      boundAddress: () => now.bound,
      addresses: () => now.addresses,
      isInitInProgress: () => now.isInitUnderWay,
      phases,
      clock,
      retryNow: () => void now.hurries++,
    }),
    { clock },
  );
  await settle();
  return tree;
}

describe('addressRunnable()', () => {
  test('reports a lost address within seconds, uses no other address, and continues when the address is back', async () => {
    await using tree = await supervised();
    expect(tree.at('root').state).toBe('healthy');
    now.addresses = [OTHER];
    await clock.advance(5_000);
    expect(tree.at('root').state).toBe('dead');
    expect(tree.at('root').lastError).toContain(OTHER);
    expect(tree.records.filter(({ message }) => /own address lost/.test(message))).toMatchObject([
      { level: 'error', fields: { address: OWN, error: { code: 'preflight-address-changed' } } },
    ]);
    await clock.advance(120_000);
    expect([tree.at('root').state, now.hurries]).toEqual(['dead', 0]);
    now.addresses = [OWN];
    await clock.advance(61_000);
    expect([tree.at('root').state, now.hurries, events]).toEqual(['healthy', 1, []]);
  });

  test('reports a lost address to the watchers of an init: the checks fail, and pass once the address is back', async () => {
    now.isInitUnderWay = true;
    await using tree = await supervised();
    now.addresses = [];
    await clock.advance(8_000);
    const failed = events.filter(({ event }) => event.kind === 'failed');
    expect(failed.length).toBeGreaterThan(1);
    expect(failed[0]?.event).toMatchObject({ phase: 'preflight', code: 'preflight-address-changed' });
    now.addresses = [OWN];
    await clock.advance(61_000);
    expect(events.at(-1)?.event).toMatchObject({ kind: 'finished', phase: 'preflight' });
    expect([tree.at('root').state, now.hurries]).toEqual(['healthy', 1]);
  });

  test('of a machine without a cluster waits for an address and reports that', async () => {
    Object.assign(now, { bound: undefined, addresses: [] });
    await using tree = await supervised();
    expect(tree.at('root').state).toBe('healthy');
    expect(tree.at('root').note).toContain('an address');
    now.addresses = [OTHER];
    await clock.advance(5_000);
    expect(tree.at('root').note).toBeUndefined();
  });
});

describe('untilAddress()', () => {
  const never = new AbortController().signal;

  test('resolves at once, without a log line, when the address is present', async () => {
    const { log, records } = createMemoryLogger();
    await untilAddress({ hasOne: () => true, clock, log }, never);
    expect(records).toEqual([]);
  });

  test('reports a missing address, and resolves when one appears', async () => {
    const { log, records } = createMemoryLogger();
    let hasOne = false;
    let isOver = false;
    const waiting = untilAddress({ hasOne: () => hasOne, clock, log }, never).then(() => (isOver = true));
    await clock.advance(60_000);
    expect([isOver, records.map(({ level }) => level)]).toEqual([false, ['warn']]);
    hasOne = true;
    await clock.advance(5_000);
    await waiting;
    expect(clock.sleeping).toBe(0);
  });
});
