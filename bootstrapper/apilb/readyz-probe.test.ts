import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import * as tls from 'node:tls';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { ReadyzProbe } from './readyz-probe.ts';

const keyPem = generateKeyPem();
const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: Date.now() });
const certPem = await new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() }).issue({
  commonName: 'kube-apiserver',
  usages: ['server'],
  names: [{ type: 'dns', value: 'another.name' }],
  validDays: 1,
  pubKeyDer: pubKeyDerOf(keyPem),
});

describe('ReadyzProbe', () => {
  let server: Server;
  let upstream: { readonly host: string; readonly port: number };
  let connections: Socket[];
  let answer: (socket: Socket) => void;
  const say = (text: string) => (socket: Socket) => void socket.write(text);
  const withBody = (status: string, body: string): string =>
    `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

  beforeEach(async () => {
    connections = [];
    answer = say(withBody('200 OK', 'ok'));
    server = createServer({ cert: certPem, key: keyPem.reveal() });
    // The test itself writes every byte of the server's answers.
    server.removeAllListeners('secureConnection');
    server.on('secureConnection', (socket) => {
      connections.push(socket);
      socket.on('error', () => undefined);
      socket.on('data', (data: Buffer) => {
        expect(data.toString()).toMatch(/^GET \/readyz HTTP\/1\.1\r\nHost: 127\.0\.0\.1:[0-9]+\r\n/);
        answer(socket);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    upstream = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  });
  afterEach(async () => {
    for (const socket of connections) socket.destroy();
    server.close();
    await once(server, 'close');
  });

  test('ReadyzProbe reuses its connection', async () => {
    const probe = new ReadyzProbe(tls, caPem);
    for (let count = 0; count < 3; count++) expect(await probe.check(upstream)).toBeUndefined();
    expect(connections).toHaveLength(1);
    probe.disconnect(upstream);
    expect(await probe.check(upstream)).toBeUndefined();
    expect(connections).toHaveLength(2);
    probe.disconnect(upstream);
  });

  test.each(['401 Unauthorized', '403 Forbidden', '429 Too Many Requests'])(
    'treats the response %s as an answer: the server works',
    async (status) => {
      answer = say(withBody(status, 'no'));
      expect(await new ReadyzProbe(tls, caPem).check(upstream)).toBeUndefined();
    },
  );

  test('reports failed readiness checks without control characters', async () => {
    answer = say(withBody('500 Internal Server Error', '[+]ping ok\n[-]etcd \u001b[31mfailed\n'));
    const why = await new ReadyzProbe(tls, caPem).check(upstream);
    expect(why).toBe('readyz answered 500: [-]etcd ?[31mfailed');
  });

  test('distinguishes a server with a certificate of another CA from a server that does not answer', async () => {
    const otherKey = generateKeyPem();
    const other = await createCaCertPem({ commonName: 'other', keyPem: otherKey, nowMs: Date.now() });
    expect(await new ReadyzProbe(tls, other).check(upstream)).toMatch(/^certificate of another CA/);
    expect(connections.every((socket) => socket.bytesRead === 0 || socket.destroyed)).toBe(true);
  });

  const hostile = [
    { name: 'closes the connection', answer: (socket: Socket) => void socket.destroy() },
    { name: 'sends an answer that does not end', answer: say('x'.repeat(20_000)) },
    {
      name: 'sends only a part of the body',
      answer: (s: Socket) => void s.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'),
    },
  ];
  test.each(hostile)('rejects when the server $name', async ({ answer: wrong }) => {
    answer = wrong;
    await expect(new ReadyzProbe(tls, caPem).check(upstream)).rejects.toThrow();
  });

  test('reports a response that is not HTTP as not ready', async () => {
    answer = say('SSH-2.0\r\n\r\n');
    expect(await new ReadyzProbe(tls, caPem).check(upstream)).toBe('readyz answered 0: ');
  });

  test('rejects when no server listens', async () => {
    await expect(new ReadyzProbe(tls, caPem).check({ host: '127.0.0.1', port: 1 })).rejects.toThrow();
  });

  test('disconnect() aborts a check, and the next check uses a new connection', async () => {
    const probe = new ReadyzProbe(tls, caPem);
    answer = () => probe.disconnect(upstream);
    await expect(probe.check(upstream)).rejects.toThrow('the server closed the connection');
    answer = say(withBody('200 OK', 'ok'));
    expect(await probe.check(upstream)).toBeUndefined();
    expect(connections).toHaveLength(2);
    probe.disconnect(upstream);
  });

  test('ignores data that the server sends before a request', async () => {
    const probe = new ReadyzProbe(tls, caPem);
    answer = say(withBody('200 OK', 'ok') + withBody('500 Internal Server Error', 'late'));
    expect(await probe.check(upstream)).toBeUndefined();
    answer = say(withBody('200 OK', 'ok'));
    expect(await probe.check(upstream)).toBeUndefined();
    probe.disconnect(upstream);
  });
});
