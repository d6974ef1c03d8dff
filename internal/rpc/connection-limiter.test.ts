import { expect, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { createMemoryLogger, FakeClock, settle } from '../testing/index.ts';
import { ConnectionLimiter } from './connection-limiter.ts';

const never = new AbortController().signal;
const socketFrom = (remoteAddress: string): Socket =>
  Object.assign(new EventEmitter(), { remoteAddress }) as unknown as Socket;

function createDoor() {
  const clock = new FakeClock();
  const pending = { maxHandshakes: 1, maxWaiting: 4, maxWaitMs: 40_000 };
  return { clock, door: new ConnectionLimiter({ pending, clock, log: createMemoryLogger().log }) };
}

test('who hangs up while it waits leaves the room, and the next one is served', async () => {
  const { clock, door } = createDoor();
  const held = await door.acquire(socketFrom('192.0.2.1'), never);
  const gone = socketFrom('192.0.2.2');
  const waiting = door.acquire(gone, never);
  gone.emit('close');
  await expect(waiting).rejects.toMatchObject({ code: 'rpc-unreachable' });
  const next = door.acquire(socketFrom('192.0.2.3'), never);
  held[Symbol.dispose]();
  using _place = await next;
  expect([gone.listenerCount('close'), clock.sleeping]).toEqual([0, 0]);
});

test('who waits longer than a machine would is sent away', async () => {
  const { clock, door } = createDoor();
  using _held = await door.acquire(socketFrom('192.0.2.1'), never);
  const waiting = expect(door.acquire(socketFrom('192.0.2.2'), never)).rejects.toMatchObject({
    code: 'rpc-crowded',
  });
  await settle();
  await clock.advance(40_000);
  await waiting;
});
