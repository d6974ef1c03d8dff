import { getEventListeners, once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { findFreePort } from '../../internal/testing/index.ts';
import { tryFullPackets } from './full-packets.ts';

const HOST = '127.0.0.1';
const signal = new AbortController().signal;
const open: Server[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await new Promise((resolve) => server.close(resolve));
});

async function listen(server: Server): Promise<number> {
  open.push(server);
  server.listen(0, HOST);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A peer that answers requests up to this size, and never those that are larger. */
const answersUpTo = (maxBytes: number): Promise<number> =>
  listen(
    createServer((socket) => {
      let size = 0;
      socket.on('data', (data) => {
        size += data.length;
        if (data.toString().endsWith('\r\n\r\n') && size <= maxBytes) socket.end('HTTP/1.1 200 OK\r\n\r\n');
      });
      socket.on('error', () => undefined);
    }),
  );
/** For peers that answer at once, or not at all. */
const ask = (port: number) => tryFullPackets(HOST, signal, { port });
/** For peers that are silent. */
const askBriefly = (port: number) => tryFullPackets(HOST, signal, { port, timeoutMs: 200 });

test('tryFullPackets() sends an HTTP server a request that is larger than a jumbo frame', async () => {
  const sizes: number[] = [];
  const server = createHttpServer((request, response) => {
    sizes.push(String(request.headers['x-padding']).length);
    response.writeHead(request.url === '/livez' ? 200 : 404).end();
  });
  expect(await ask(await listen(server))).toBe('arrive');
  expect(sizes).toEqual([10_000]);
});

test('tryFullPackets() takes any answer as an arrival, also a refusal of the request', async () => {
  const server = createHttpServer({ maxHeaderSize: 2_000 }, (_, response) => void response.end());
  expect(await ask(await listen(server))).toBe('arrive');
});

test('tryFullPackets() reports a peer that answers only small requests', async () => {
  expect(await askBriefly(await answersUpTo(1_000))).toBe('lost');
});

test('tryFullPackets() does not judge a peer that answers nothing, refuses, hangs up, or is asked no more', async () => {
  expect(await askBriefly(await answersUpTo(0))).toBe('unknown');
  expect(await ask(await findFreePort())).toBe('unknown');
  expect(await ask(await listen(createServer((socket) => socket.destroy())))).toBe('unknown');
  const port = await answersUpTo(0);
  expect(await tryFullPackets(HOST, AbortSignal.abort(), { port })).toBe('unknown');
});

test('tryFullPackets() leaves no listener on its signal', async () => {
  const { signal: long } = new AbortController();
  expect(await tryFullPackets(HOST, long, { port: await answersUpTo(20_000) })).toBe('arrive');
  expect(getEventListeners(long, 'abort')).toEqual([]);
});
