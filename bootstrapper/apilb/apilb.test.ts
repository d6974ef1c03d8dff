import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { SystemClock } from '../../internal/clock/index.ts';
import { createMemoryLogger } from '../../internal/testing/index.ts';
import { Balancer } from './balancer.ts';
import { parseApilbConfig, UpstreamPool, type Upstream } from './upstreams.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

describe('parseApilbConfig()', () => {
  const endpoint = { host: '192.0.2.1', port: 6443 };
  const refused = [
    { name: 'no JSON', text: '{' },
    { name: 'null', text: 'null' },
    { name: 'no upstream', text: JSON.stringify({ listen: endpoint, upstreams: [] }) },
    {
      name: 'a port out of range',
      text: JSON.stringify({ listen: endpoint, upstreams: [{ host: 'a', port: 65536 }] }),
    },
    { name: 'no listen address', text: JSON.stringify({ upstreams: [endpoint] }) },
  ];
  test.each(refused)('refuses $name', ({ text }) => {
    expect(() => parseApilbConfig(text)).toThrow(SyntaxError);
  });
});

describe('UpstreamPool', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((host) => ({ host, port: 1 })) as [Upstream, Upstream, Upstream];

  test('keeps the preferred order while all work', () => {
    expect(new UpstreamPool([a, b, c]).inOrder(0)).toEqual([a, b, c]);
  });

  test('tries what failed lately last, the oldest failure first, until it cooled down', () => {
    const pool = new UpstreamPool([a, b, c]);
    pool.failed(a, 1000);
    pool.failed(b, 500);
    expect(pool.inOrder(1001)).toEqual([c, b, a]);
    expect(pool.inOrder(5600)).toEqual([b, c, a]);
    expect(pool.inOrder(7000)).toEqual([a, b, c]);
  });

  test('forgets failures of upstreams that have left', () => {
    const pool = new UpstreamPool([a, b]);
    pool.failed(a, 0);
    pool.replace([b]);
    pool.replace([a, b]);
    expect(pool.inOrder(1)).toEqual([a, b]);
  });
});

async function echoServer(name: string): Promise<Upstream> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (data) => socket.write(`${name}:${data.toString()}`));
    socket.on('end', () => socket.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({ [Symbol.asyncDispose]: async () => void server.close() });
  return { host: '127.0.0.1', port: (server.address() as { port: number }).port };
}

function ask(port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('hi'));
    socket.on('error', () => undefined);
    socket.once('close', () => resolve('closed'));
    socket.once('data', (data) => {
      resolve(data.toString());
      socket.destroy();
    });
  });
}

describe('Balancer', () => {
  test('passes bytes both ways, goes round a dead upstream and follows a new list', async () => {
    const [first, second] = [await echoServer('first'), await echoServer('second')];
    const dead = { host: '127.0.0.1', port: 1 };
    const balancer = new Balancer({
      upstreams: [dead, first],
      clock: new SystemClock(),
      log: createMemoryLogger().log,
    });
    open.push(balancer);
    const port = await balancer.listen({ host: '127.0.0.1', port: 0 });
    expect(await ask(port)).toBe('first:hi');
    balancer.replace([second]);
    expect(await ask(port)).toBe('second:hi');
    balancer.replace([dead]);
    expect(await ask(port)).toBe('closed');
  });
});
