import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { respond } from '../testing/tpm/fake-tpm.ts';
import { socketSource } from './socket-transport.ts';

const never = new AbortController().signal;
const COMMAND = Uint8Array.of(0x80, 1, 0, 0, 0, 10, 0, 0, 1, 0x7b);

/** A server that calls `serve` for each connection. */
async function listen(serve: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    source: socketSource({ host: '127.0.0.1', port }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('socketSource()', () => {
  const answer = respond({ parameters: Uint8Array.of(1, 2) });

  test('assembles a response from several chunks', async () => {
    await using server = await listen((socket) => {
      socket.on('data', () => {
        for (const byte of answer) socket.write(Uint8Array.of(byte));
      });
    });
    await using transport = await server.source.open(never);
    expect(await transport.transmit(COMMAND, never)).toEqual(answer);
    expect(await transport.transmit(COMMAND, never)).toEqual(answer);
  });

  const hostile = [
    {
      name: 'a response length below the header size',
      bytes: [0x80, 1, 0, 0, 0, 9, 0, 0, 0, 0],
      code: 'tpm-malformed',
    },
    {
      name: 'a response length of 4 GiB',
      bytes: [0x80, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
      code: 'tpm-malformed',
    },
    { name: 'a response with a trailing byte', bytes: [...answer, 0], code: 'tpm-malformed' },
    {
      name: 'a connection that closes within a response',
      bytes: [...answer.slice(0, 8)],
      code: 'tpm-connection',
      close: true,
    },
    { name: 'a connection that closes immediately', bytes: [], code: 'tpm-connection', close: true },
  ];
  test.each(hostile)('refuses $name', async ({ bytes, code, close }) => {
    await using server = await listen((socket) => {
      socket.on('data', () => {
        socket.write(Uint8Array.from(bytes));
        if (close === true) socket.end();
      });
    });
    await using transport = await server.source.open(never);
    await expect(transport.transmit(COMMAND, never)).rejects.toMatchObject({ code });
  });

  test('stops waiting when its signal fires', async () => {
    await using server = await listen(() => undefined);
    await using transport = await server.source.open(never);
    const abort = new AbortController();
    const answered = transport.transmit(COMMAND, abort.signal);
    abort.abort(new Error('enough'));
    await expect(answered).rejects.toThrow('enough');
  });

  test('reports a refused connection', async () => {
    const source = socketSource({ path: '/nowhere/tpm.sock' });
    await expect(source.open(never)).rejects.toMatchObject({ code: 'tpm-unavailable' });
  });
});
