import { describe, expect, test } from '@jest/globals';
import { FakeClock } from '../../../internal/testing/index.ts';
import { NodeClocks } from './node-clocks.ts';

const INTERVAL_MS = 5_000;
const MINUTE_MS = 60_000;

function create() {
  const clock = new FakeClock();
  const clocks = new NodeClocks(clock);
  const offsets = (): Readonly<Record<string, number>> =>
    Object.fromEntries(clocks.offsets().map(({ nodeId, offsetMs }) => [nodeId, offsetMs]));
  /** Heartbeats of a node whose clock is ahead by `aheadMs`, each one received after its delay. */
  const receive = async (
    stream: ReturnType<NodeClocks['open']>,
    aheadMs: number,
    delaysMs: readonly number[],
  ): Promise<void> => {
    for (const delayMs of delaysMs) {
      await clock.advance(INTERVAL_MS);
      stream.note(BigInt(clock.nowMs() + aheadMs - delayMs));
    }
  };
  return { clock, clocks, offsets, receive };
}

describe('NodeClocks', () => {
  test.each([
    { name: 'is right', aheadMs: 0 },
    { name: 'is behind', aheadMs: -7 * MINUTE_MS },
    { name: 'is ahead', aheadMs: 7 * MINUTE_MS },
  ])('measures the clock of a node that $name', async ({ aheadMs }) => {
    const { clocks, offsets, receive } = create();
    await receive(clocks.open('n4'), aheadMs, [0, 0]);
    expect(offsets()).toEqual({ n4: aheadMs });
  });

  test('does not take a slow heartbeat for a clock that is behind', async () => {
    const { clocks, offsets, receive } = create();
    await receive(clocks.open('n4'), 0, [2 * MINUTE_MS, 20, 2 * MINUTE_MS, 3 * MINUTE_MS]);
    expect(offsets()).toEqual({ n4: -20 });
  });

  test('does not judge a clock by a single heartbeat', async () => {
    const { clocks, offsets, receive } = create();
    await receive(clocks.open('n4'), 0, [2 * MINUTE_MS]);
    expect(offsets()).toEqual({});
  });

  test('follows a clock that was set, after four heartbeats', async () => {
    const { clocks, offsets, receive } = create();
    const stream = clocks.open('n4');
    await receive(stream, 7 * MINUTE_MS, [0, 0, 0, 0]);
    await receive(stream, 0, [0, 0, 0]);
    expect(offsets()).toEqual({ n4: 7 * MINUTE_MS });
    await receive(stream, 0, [0]);
    expect(offsets()).toEqual({ n4: 0 });
  });

  test('has no clock of an agent that sends none, and of one that sends no time', () => {
    const { clocks, offsets } = create();
    const stream = clocks.open('n4');
    for (const sentMs of [undefined, undefined, 0n, -1n, 2n ** 62n, -(2n ** 62n)]) stream.note(sentMs);
    expect(offsets()).toEqual({});
  });

  test('forgets a node when its stream ends, but not if a newer stream has begun', async () => {
    const { clocks, offsets, receive } = create();
    const [older, newer] = [clocks.open('n4'), clocks.open('n4')];
    await receive(older, 0, [0, 0]);
    await receive(newer, MINUTE_MS, [0, 0]);
    older[Symbol.dispose]();
    expect(offsets()).toEqual({ n4: MINUTE_MS });
    newer[Symbol.dispose]();
    expect(offsets()).toEqual({});
  });

  test('remembers a limited number of nodes', () => {
    const { clock, clocks } = create();
    const sentMs = BigInt(clock.nowMs());
    for (let node = 0; node < 8_200; node++) {
      const stream = clocks.open(`n${node}`);
      stream.note(sentMs);
      stream.note(sentMs);
    }
    expect(clocks.offsets()).toHaveLength(8_192);
  });
});
