import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { SystemClock, type Clock } from '../../internal/clock/index.ts';
import { readProxyHeader } from '../../internal/endpoint/index.ts';
import { createMemoryLogger, FakeClock } from '../../internal/testing/index.ts';
import { Balancer } from './balancer.ts';
import { parseForwardRules, type Endpoint, type Limits } from './config.ts';
import { UpstreamPool, type Verdict } from './upstreams.ts';

const limits: Limits = {
  connections: 3,
  perSource: 2,
  idleMs: 60_000,
  halfOpenMs: 60_000,
  lifeMs: 600_000,
};
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

describe('parseForwardRules()', () => {
  const endpoint = { host: '192.0.2.1', port: 6443 };
  const limited = (given: unknown): string =>
    JSON.stringify({ passages: [{ listen: endpoint, upstreams: [endpoint], limits: given }] });
  const refused = [
    { name: 'text that is not JSON', text: '{' },
    { name: 'null', text: 'null' },
    { name: 'a missing upstream', text: JSON.stringify({ listen: endpoint, upstreams: [] }) },
    {
      name: 'a port out of range',
      text: JSON.stringify({ listen: endpoint, upstreams: [{ host: 'a', port: 65536 }] }),
    },
    { name: 'a missing listen address', text: JSON.stringify({ upstreams: [endpoint] }) },
    { name: 'an empty list', text: JSON.stringify({ passages: [] }) },
    { name: 'null', text: JSON.stringify({ passages: [null] }) },
    {
      name: 'more rules than the maximum',
      text: JSON.stringify({ passages: Array(9).fill({ listen: endpoint, upstreams: [endpoint] }) }),
    },
    { name: 'limits with a missing limit', text: limited({ ...limits, idleMs: undefined }) },
    { name: 'limits with an invalid limit', text: limited({ ...limits, connections: 0 }) },
    { name: 'limits with an unknown limit', text: limited({ ...limits, perPort: 1 }) },
    { name: 'limits of the wrong type', text: limited('none') },
    {
      name: 'a value of announcesClients other than true',
      text: JSON.stringify({ listen: endpoint, upstreams: [endpoint], announcesClients: 'yes' }),
    },
    ...[{}, { caPem: 5 }, { caPem: 'none' }, null].map((health) => ({
      name: `health settings ${JSON.stringify(health)}`,
      text: JSON.stringify({ listen: endpoint, upstreams: [endpoint], health }),
    })),
  ];
  test.each(refused)('refuses $name', ({ text }) => {
    expect(() => parseForwardRules(text)).toThrow(SyntaxError);
  });

  test('accepts a list of rules and a single rule', () => {
    const rule = { listen: endpoint, upstreams: [endpoint] };
    expect(parseForwardRules(JSON.stringify(rule))).toEqual([rule]);
    const bounded = { ...rule, limits };
    expect(parseForwardRules(JSON.stringify({ passages: [rule, bounded] }))).toEqual([rule, bounded]);
  });

  test('accepts limits without a maximum age, and a CA for health checks', () => {
    const { lifeMs: _, ...ageless } = limits;
    const health = { caPem: '-----BEGIN CERTIFICATE-----' };
    const rule = { listen: endpoint, upstreams: [endpoint], limits: ageless, health };
    expect(parseForwardRules(JSON.stringify(rule))).toEqual([rule]);
  });
});

describe('UpstreamPool', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((host) => ({ host, port: 1 })) as [Endpoint, Endpoint, Endpoint];

  test('UpstreamPool keeps the given order while all upstreams work', () => {
    expect(new UpstreamPool([a, b, c]).inOrder(0)).toEqual([a, b, c]);
  });

  test('UpstreamPool tries upstreams with recent failures last', () => {
    const pool = new UpstreamPool([a, b, c]);
    pool.recordFailure(a, 1000);
    pool.recordFailure(b, 500);
    expect(pool.inOrder(1001)).toEqual([c, b, a]);
    expect(pool.inOrder(5600)).toEqual([b, c, a]);
    expect(pool.inOrder(7000)).toEqual([a, b, c]);
  });

  test('UpstreamPool orders healthy upstreams before unready upstreams, and unready upstreams before silent ones', () => {
    const verdicts: Record<string, Verdict> = { a: 'silent', b: 'unready', c: 'healthy' };
    const pool = new UpstreamPool([a, b, c], ({ host }) => verdicts[host] ?? 'unknown');
    expect(pool.inOrder(0)).toEqual([c, b, a]);
    pool.recordFailure(c, 0);
    expect(pool.inOrder(1)).toEqual([c, b, a]);
    verdicts['c'] = 'silent';
    verdicts['a'] = 'unknown';
    expect(pool.inOrder(1)).toEqual([a, b, c]);
  });

  test('UpstreamPool forgets the failures of removed upstreams', () => {
    const pool = new UpstreamPool([a, b]);
    pool.recordFailure(a, 0);
    pool.replace([b]);
    pool.replace([a, b]);
    expect(pool.inOrder(1)).toEqual([a, b]);
  });
});

async function echoServer(name: string): Promise<Endpoint> {
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

/** A server that accepts all data and never closes a connection. */
async function stubbornServer(): Promise<Endpoint> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    socket.resume();
    open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
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
  test('forwards bytes in both directions, skips a dead upstream and uses a new list of upstreams', async () => {
    const [first, second] = [await echoServer('first'), await echoServer('second')];
    const dead = { host: '127.0.0.1', port: 1 };
    const balancer = new Balancer({
      rule: { upstreams: [dead, first] },
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

  test.each([
    { name: 'the address of each client in front of its bytes, if the rule says so', host: '127.0.0.1' },
    {
      name: 'a client by its IPv4 address also if the rule listens at all addresses of both families',
      host: '::',
    },
  ])('announces $name', async ({ host }) => {
    const received = Promise.withResolvers<Buffer>();
    const server = createServer((socket) => {
      const chunks: Buffer[] = [];
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => void chunks.push(chunk));
      socket.on('end', () => received.resolve(Buffer.concat(chunks)));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push({ [Symbol.asyncDispose]: async () => void server.close() });
    const upstream = { host: '127.0.0.1', port: (server.address() as { port: number }).port };
    const { log } = createMemoryLogger();
    const rule = { upstreams: [upstream], announcesClients: true } as const;
    const balancer = new Balancer({ rule, clock: new SystemClock(), log });
    open.push(balancer);
    const port = await balancer.listen({ host, port: 0 });
    const client = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.9' });
    client.on('error', () => undefined);
    client.end('hello');
    const bytes = await received.promise;
    expect(readProxyHeader(bytes)).toEqual({ kind: 'header', clientAddress: '127.0.0.9', sizeBytes: 28 });
    expect(bytes.subarray(28).toString()).toBe('hello');
  });

  /** Starts a balancer with one echo server. Clients connect to it from different loopback addresses. */
  async function bounded(
    more: Partial<Limits>,
    { clock = new SystemClock(), upstream }: { readonly clock?: Clock; readonly upstream?: Endpoint } = {},
  ) {
    const { log, records } = createMemoryLogger();
    const upstreams = [upstream ?? (await echoServer('echo'))];
    const balancer = new Balancer({ rule: { upstreams, limits: { ...limits, ...more } }, clock, log });
    open.push(balancer);
    const port = await balancer.listen({ host: '127.0.0.1', port: 0 });
    const dial = (localAddress: string): TestClient =>
      new TestClient(connect({ port, host: '127.0.0.1', localAddress }));
    return { dial, records };
  }

  test('limits the number of connections in total and per client address', async () => {
    const { dial, records } = await bounded({});
    const [first, second] = [dial('127.0.0.1'), dial('127.0.0.1')];
    expect([await first.asked(), await second.asked()]).toEqual(['echo:hi', 'echo:hi']);
    expect(await dial('127.0.0.1').asked()).toBe('closed');
    expect(await dial('127.0.0.2').asked()).toBe('echo:hi');
    expect(await dial('127.0.0.3').asked()).toBe('closed');
    expect(records.map(({ message }) => message)).toEqual(['too many connections']); // logged once for any number of refused connections
    first.socket.destroy();
    await second.asked(); // when the second client is answered, the balancer has also seen the first connection end
    expect(await dial('127.0.0.1').asked()).toBe('echo:hi');
  });

  test('closes idle connections after the idle limit', async () => {
    const { dial } = await bounded({ idleMs: 20 });
    const clientSocket = dial('127.0.0.1');
    expect(await clientSocket.asked()).toBe('echo:hi');
    await clientSocket.closed;
  });

  test('closes half-open connections after their limit', async () => {
    const { dial } = await bounded({ halfOpenMs: 20 }, { upstream: await stubbornServer() });
    const clientSocket = dial('127.0.0.1');
    clientSocket.socket.end();
    await clientSocket.closed;
  });

  test('keeps busy connections open if there is no maximum age', async () => {
    const clock = new FakeClock();
    const { lifeMs: _, ...ageless } = limits;
    const { log } = createMemoryLogger();
    const balancer = new Balancer({
      rule: { upstreams: [await echoServer('echo')], limits: ageless },
      ...{ clock, log },
    });
    open.push(balancer);
    const clientSocket = new TestClient(
      connect(await balancer.listen({ host: '127.0.0.1', port: 0 }), '127.0.0.1'),
    );
    expect(await clientSocket.asked()).toBe('echo:hi');
    await clock.advance(30 * 86_400_000);
    expect(await clientSocket.asked()).toBe('echo:hi');
    expect(clock.sleeping).toBe(0);
  });

  test('moves clients from an upstream that hangs to one that answers', async () => {
    const clock = new FakeClock();
    const { log } = createMemoryLogger();
    const [first, second] = [await echoServer('first'), await echoServer('second')];
    const hung = new Set<number>();
    const balancer = new Balancer({ rule: { upstreams: [first, second] }, clock, log });
    open.push(balancer);
    let forget = (): void => undefined;
    const probe = {
      check: ({ port }: Endpoint) =>
        hung.has(port)
          ? new Promise<undefined>((_, reject) => (forget = () => reject(new Error('forgotten'))))
          : Promise.resolve(undefined),
      disconnect: () => forget(),
    };
    balancer.checkHealth({ probe, random: () => 0.5 });
    const port = await balancer.listen({ host: '127.0.0.1', port: 0 });
    const clientSocket = new TestClient(connect(port, '127.0.0.1'));
    expect(await clientSocket.asked()).toBe('first:hi');
    expect(balancer.states().map(({ verdict, connections }) => [verdict, connections])).toEqual([
      ['healthy', 1],
      ['healthy', 0],
    ]);
    hung.add(first.port);
    await clock.advance(4_600);
    await clientSocket.closed;
    expect(await ask(port)).toBe('second:hi'); // although the first upstream still accepts connections
    hung.add(second.port);
    await clock.advance(20_000);
    expect(await ask(port)).toBe('first:hi'); // all upstreams hang: the first that accepts a connection gets it
  });

  test('closes busy connections at the maximum age', async () => {
    const clock = new FakeClock();
    const { dial } = await bounded({ lifeMs: 1_000 }, { clock });
    const clientSocket = dial('127.0.0.1');
    expect(await clientSocket.asked()).toBe('echo:hi');
    await clock.advance(999);
    expect(await clientSocket.asked()).toBe('echo:hi');
    await clock.advance(1);
    await clientSocket.closed;
  });
});

/** A client that connects, sends as many requests as the test likes, and keeps its connection. */
class TestClient {
  readonly closed: Promise<unknown>;
  readonly socket: Socket;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('error', () => undefined);
    this.closed = once(socket, 'close');
    open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
  }

  async asked(): Promise<string> {
    this.socket.write('hi');
    const said = new Promise<string>((resolve) => this.socket.once('data', (data) => resolve(String(data))));
    return Promise.race([said, this.closed.then(() => 'closed')]);
  }
}
