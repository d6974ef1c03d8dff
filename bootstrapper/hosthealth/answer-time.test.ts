import { getEventListeners, once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { findFreePort } from '../../internal/testing/index.ts';
import { answerTimeMs } from './answer-time.ts';

const HOST = '127.0.0.1';
const signal = new AbortController().signal;

/** A clock that goes on by this time whenever it is read: before and after each connection. */
function createClock(stepMs = 1) {
  let nowMs = 0;
  return { monotonicMs: () => (nowMs += stepMs) };
}
const ask = (host: string, ports: readonly number[], clock = createClock()) =>
  answerTimeMs(host, { clock, signal, ports });

test('answerTimeMs() takes a connection and a refusal as an answer', async () => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, HOST);
  await once(server, 'listening');
  expect(await ask(HOST, [(server.address() as AddressInfo).port])).toBe(1);
  server.close();
  expect(await ask(HOST, [await findFreePort()])).toBe(1);
});

test('answerTimeMs() takes no route as silence, and ends when its signal fires', async () => {
  // A broadcast address: connecting to it fails at once on every machine.
  expect(await ask('255.255.255.255', [1])).toBeUndefined();
  const aborted = AbortSignal.abort(new Error('stopped'));
  await expect(answerTimeMs(HOST, { clock: createClock(), signal: aborted, ports: [1] })).rejects.toThrow(
    'stopped',
  );
});

test('answerTimeMs() is never more than the time limit, however late this process looks', async () => {
  expect(await ask(HOST, [await findFreePort()], createClock(5_000))).toBe(1_000);
});

test('answerTimeMs() leaves no listener on its signal', async () => {
  const { signal: long } = new AbortController();
  await answerTimeMs(HOST, { clock: createClock(), signal: long, ports: [await findFreePort()] });
  expect(getEventListeners(long, 'abort')).toEqual([]);
});
