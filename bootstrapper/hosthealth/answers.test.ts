import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { findFreePort } from '../../internal/testing/index.ts';
import { answers } from './answers.ts';

const HOST = '127.0.0.1';
const signal = new AbortController().signal;

test('answers() takes a connection and a refusal as an answer', async () => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, HOST);
  await once(server, 'listening');
  expect(await answers(HOST, signal, [(server.address() as AddressInfo).port])).toBe(true);
  server.close();
  expect(await answers(HOST, signal, [await findFreePort()])).toBe(true);
});

test('answers() takes no route as silence, and ends when its signal fires', async () => {
  // A broadcast address: connecting to it fails at once on every machine.
  expect(await answers('255.255.255.255', signal, [1])).toBe(false);
  await expect(answers(HOST, AbortSignal.abort(new Error('stopped')), [1])).rejects.toThrow('stopped');
});
