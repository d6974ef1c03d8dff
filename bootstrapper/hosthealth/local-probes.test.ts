import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { expect, test } from '@jest/globals';
import { findFreePort } from '../../internal/testing/index.ts';
import { answerProbe, HTTP1_HELLO, HTTP2_HELLO, httpProbe, SilentError } from './local-probes.ts';

const signal = new AbortController().signal;

test('httpProbe() accepts a program that answers 200, and tells what another answer says', async () => {
  const state = { status: 200 };
  const server = createServer((_, response) => response.writeHead(state.status).end('syncloop failed'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const probe = httpProbe(port, '/healthz');
  try {
    await probe(signal);
    state.status = 500;
    await expect(probe(signal)).rejects.toThrow('healthz answered 500: syncloop failed');
    await answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO)(signal);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('probes tell that nothing listens', async () => {
  const port = await findFreePort();
  await expect(httpProbe(port, '/healthz')(signal)).rejects.toThrow('ECONNREFUSED');
  const refused = answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO)(signal);
  await expect(refused).rejects.toThrow('ECONNREFUSED');
  await expect(refused).rejects.not.toThrow(SilentError);
  await expect(answerProbe({ path: '/nothing' }, HTTP2_HELLO)(signal)).rejects.toThrow('ENOENT');
});

/** Runs `probe` against a server that handles each connection with `onConnection`. */
async function against(
  onConnection: (socket: Socket) => void,
  probe: (port: number) => Promise<void>,
): Promise<void> {
  const sockets: Socket[] = [];
  const server = createTcpServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await probe((server.address() as AddressInfo).port);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

test('answerProbe() accepts the settings of an HTTP/2 server', async () => {
  const server = createHttp2Server();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    await answerProbe({ host: '127.0.0.1', port }, HTTP2_HELLO)(signal);
  } finally {
    server.close();
  }
});

test('answerProbe() distinguishes a program that sends nothing from one that closes the connection', async () => {
  const probe = (port: number) => answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO)(signal);
  await against(
    () => undefined,
    (port) => expect(probe(port)).rejects.toThrow(SilentError),
  );
  await against(
    (socket) => void socket.end(),
    (port) => expect(probe(port)).rejects.toThrow('the program closed the connection'),
  );
});

test('httpProbe() does not wait for a program that does not answer', async () => {
  await against(
    () => undefined,
    (port) => expect(httpProbe(port, '/livez')(signal)).rejects.toThrow('no answer within 2.0s'),
  );
});

test('answerProbe() leaves no listener on its signal, which lives as long as the agent', async () => {
  const { signal: long } = new AbortController();
  await against(
    (socket) => void socket.write('x'),
    (port) => answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO)(long),
  );
  await expect(answerProbe({ path: '/nothing' }, HTTP2_HELLO)(long)).rejects.toThrow('ENOENT');
  expect(getEventListeners(long, 'abort')).toEqual([]);
});
