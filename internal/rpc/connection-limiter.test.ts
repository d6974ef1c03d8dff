import { expect, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { createMemoryLogger, FakeClock, settle } from '../testing/index.ts';
import { ConnectionLimiter } from './connection-limiter.ts';
import { sourcePathOf } from './source-path.ts';

const never = new AbortController().signal;
const socketFrom = (remoteAddress: string): Socket =>
  Object.assign(new EventEmitter(), { remoteAddress }) as unknown as Socket;

function createLimiter() {
  const clock = new FakeClock();
  const pending = { maxHandshakes: 1, maxWaiting: 4, maxWaitMs: 40_000 };
  return { clock, limiter: new ConnectionLimiter({ pending, clock, log: createMemoryLogger().log }) };
}

test('ConnectionLimiter.acquire() skips a client that disconnects while it waits', async () => {
  const { clock, limiter } = createLimiter();
  const held = await limiter.acquire(socketFrom('192.0.2.1'), sourcePathOf('192.0.2.1'), never);
  const gone = socketFrom('192.0.2.2');
  const waiting = limiter.acquire(gone, sourcePathOf('192.0.2.2'), never);
  gone.emit('close');
  await expect(waiting).rejects.toMatchObject({ code: 'rpc-unreachable' });
  const next = limiter.acquire(socketFrom('192.0.2.3'), sourcePathOf('192.0.2.3'), never);
  held[Symbol.dispose]();
  using _slot = await next;
  expect([gone.listenerCount('close'), clock.sleeping]).toEqual([0, 0]);
});

test('ConnectionLimiter.acquire() refuses a client after the maximum wait', async () => {
  const { clock, limiter } = createLimiter();
  using _held = await limiter.acquire(socketFrom('192.0.2.1'), sourcePathOf('192.0.2.1'), never);
  const waiting = expect(
    limiter.acquire(socketFrom('192.0.2.2'), sourcePathOf('192.0.2.2'), never),
  ).rejects.toMatchObject({
    code: 'rpc-crowded',
  });
  await settle();
  await clock.advance(40_000);
  await waiting;
});
