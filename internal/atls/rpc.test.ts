import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import type * as Grpc from '@grpc/grpc-js';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createRequire } from 'node:module';
import { SystemClock } from '../clock/index.ts';
import { createClient, implement, RpcChannel, RpcServer } from '../rpc/index.ts';
import {
  codeOf,
  createAtlsEnds,
  Echo,
  FakeIssuer,
  FakeValidator,
  MACHINE_KEY,
} from '../testing/atls/index.ts';
import { createMemoryLogger } from '../testing/index.ts';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from './index.ts';

const never = new AbortController().signal;
const clock = new SystemClock();

describe('gRPC over attested TLS', () => {
  test('a handler receives the attested identity of its caller', async () => {
    await using server = await serve();
    using channel = dial(server.port, 'machine-a');
    const said = await ask(channel);
    expect(said).toBe(identityOf('machine-a'));
    expect(channel.peer?.machineIdentity.id).toBe(identityOf('server'));
  });

  test('handlers of two concurrent callers receive the right identities', async () => {
    await using server = await serve();
    using a = dial(server.port, 'machine-a');
    using b = dial(server.port, 'machine-b');
    const said = await Promise.all([ask(a), ask(b), ask(a), ask(b)]);
    const [idA, idB] = [identityOf('machine-a'), identityOf('machine-b')];
    expect(said).toEqual([idA, idB, idA, idB]);
  });

  test('handlers distinguish two callers with the same source address and port', async () => {
    await using server = await serve('0.0.0.0');
    const upgradeFrom = (name: string, host: string) => upgradeOver(name, { host, port: server.port });
    const localPort = await freePort();
    using a = new RpcChannel({
      endpoint: `127.0.0.1:${server.port}`,
      upgrade: upgradeFrom('machine-a', '127.0.0.1'),
    });
    using b = new RpcChannel({
      endpoint: `127.0.0.1:${server.port}`,
      upgrade: upgradeFrom('machine-b', '127.0.0.2'),
    });
    expect(await ask(a)).toBe(identityOf('machine-a'));
    expect(await ask(b)).toBe(identityOf('machine-b'));
    expect(await ask(a)).toBe(identityOf('machine-a'));

    /** Closes the connection that grpc opened, and opens a new connection from the source port that the test chose. */
    function upgradeOver(name: string, to: { readonly host: string; readonly port: number }) {
      return async (tcp: Socket, signal: AbortSignal) => {
        tcp.destroy();
        const own = connect({ ...to, localAddress: '127.0.0.1', localPort });
        own.on('error', () => undefined);
        await once(own, 'connect');
        return client(name)(own, signal);
      };
    }
  });

  test('the caller receives the error code of a refusal', async () => {
    await using server = await serve();
    using channel = dial(server.port, 'machine-a', { measurement: 'bad' });
    expect(await codeOf(ask(channel))).toBe('atls-alert-evidence-rejected');
    await eventually(() => server.refusals().includes('atls-evidence-rejected')); // recorded when the peer closes
  });

  test('a plain gRPC client fails in ALPN before the server issues evidence', async () => {
    await using server = await serve();
    const ends = await createAtlsEnds();
    using channel = new RpcChannel({
      endpoint: `127.0.0.1:${server.port}`,
      upgrade: async (tcp) => {
        const { connect: tlsConnect } = await import('node:tls');
        const { certPem: cert, keyPem: key } = ends.identity.client;
        const socket = tlsConnect({
          socket: tcp,
          cert,
          key,
          rejectUnauthorized: false,
          ALPNProtocols: ['h2'],
        });
        await once(socket, 'secureConnect');
        return { socket, peer: undefined };
      },
    });
    expect(await codeOf(ask(channel))).not.toBe('resolved');
    await eventually(() => server.refusals().includes('atls-tls-alpn'));
    expect(server.issuer.issued).toBe(0);
  });

  test('a channel attests again after a lost connection', async () => {
    await using server = await serve();
    using channel = dial(server.port, 'machine-a');
    await ask(channel);
    server.cut();
    expect(await retried(() => ask(channel))).toBe(identityOf('machine-a'));
    expect(server.issuer.issued).toBe(2);
  });

  test('a connection at its maximum age is closed gracefully, and the next call attests again', async () => {
    await using server = await serve('127.0.0.1', { maxConnectionAgeMs: 100 });
    using channel = dial(server.port, 'machine-a');
    for (let call = 0; server.issuer.issued < 3 && call < 500; call++) {
      expect(await ask(channel)).toBe(identityOf('machine-a'));
      await clock.sleep(10, never);
    }
    expect(server.issuer.issued).toBeGreaterThanOrEqual(3);
  });

  test('three concurrent first calls succeed on each of many connections', async () => {
    await using server = await serve();
    const rounds = Number(process.env['ATLS_STRESS'] ?? 40);
    let answered = 0;
    for (let round = 0; round < rounds; round++) {
      using channel = dial(server.port, 'machine-a');
      const said = await Promise.all([ask(channel), ask(channel), ask(channel)]);
      answered += said.filter((id) => id === identityOf('machine-a')).length;
    }
    expect(answered).toBe(rounds * 3);
  }, 600_000);
});

describe('internals of grpc-js that attested TLS depends on', () => {
  const require = createRequire(import.meta.url);
  const grpc = require('@grpc/grpc-js') as typeof Grpc;

  test('the installed version is the one tested here', () => {
    const { version } = require('@grpc/grpc-js/package.json') as { readonly version: string };
    expect(version).toMatch(/^1\.14\./);
  });

  test('the server accepts injected connections (gRFC L114)', () => {
    const server = new grpc.Server();
    const injector = server.createConnectionInjector(grpc.ServerCredentials.createInsecure());
    expect(typeof injector.injectConnection).toBe('function');
    expect(typeof injector.drain).toBe('function');
    expect(typeof injector.destroy).toBe('function');
    injector.destroy();
    server.forceShutdown();
  });

  test('the client lets its channel credentials secure the TCP socket', async () => {
    const asked = Promise.withResolvers<Socket>();
    class Probe extends grpc.ChannelCredentials {
      override _isSecure() {
        return true;
      }
      override _equals(other: unknown) {
        return this === other;
      }
      override _createSecureConnector() {
        return {
          connect: (socket: Socket) => {
            asked.resolve(socket);
            return Promise.reject(new Error('seen enough'));
          },
          waitForReady: () => Promise.resolve(),
          getCallCredentials: () => grpc.CallCredentials.createEmpty(),
          destroy: () => undefined,
        };
      }
    }
    const { createServer } = await import('node:net');
    const listener = createServer((tcp) => tcp.on('error', () => undefined).resume()).listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as { readonly port: number };
    const client = new grpc.Client(`127.0.0.1:${port}`, new Probe());
    client.getChannel().getConnectivityState(true); // connects
    const socket = await asked.promise;
    expect(typeof socket.write).toBe('function');
    client.close();
    socket.destroy();
    listener.close();
  });
});

interface ServeOptions {
  readonly maxConnectionAgeMs?: number;
}

async function serve(host = '127.0.0.1', options: ServeOptions = {}) {
  const sockets = new Set<Socket>();
  const { log, records } = createMemoryLogger();
  const issuer = issuerOf('server');
  const upgrade = atlsServerUpgrade({
    trust: trustOf(issuer),
    context: 'c',
    keys: new RotatingKeys({ clock }),
    clock,
  });
  const rpc = new RpcServer<AttestedPeer>({
    clock,
    upgrade: (tcp, signal) => {
      sockets.add(tcp);
      return upgrade(tcp, signal);
    },
    services: [
      implement(Echo, {
        echo: (_request, { peer }: { readonly peer: AttestedPeer }) =>
          Promise.resolve({ value: Buffer.from(peer.machineIdentity.id) }),
      }),
    ],
    disclose: 'chain',
    log,
    ...options,
  });
  const port = await rpc.listen(host, 0);
  return {
    port,
    issuer,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    refusals: () =>
      records.map(({ fields }) => (fields['error'] as { readonly code?: string } | undefined)?.code),
    [Symbol.asyncDispose]: () => rpc.close(0),
  };
}

/** All fake machines share one key. Each has its own name, which becomes its identity. */
function issuerOf(name: string, measurement?: string): FakeIssuer {
  const options = {
    variant: 'tpm',
    key: MACHINE_KEY,
    name,
    ...(measurement === undefined ? {} : { measurement }),
  } as const;
  return new FakeIssuer(options);
}

function trustOf(issuer: FakeIssuer) {
  const validator = new FakeValidator({ variant: 'tpm', key: MACHINE_KEY });
  return { trust: 'mutual', shows: [issuer], accepts: [validator], rules: () => REJECT_ALL_RULES } as const;
}

function client(name: string, options: { readonly measurement?: string } = {}) {
  const trust = trustOf(issuerOf(name, options.measurement));
  return atlsClientUpgrade({ trust, context: 'c', keys: new RotatingKeys({ clock }), clock });
}

function dial(
  port: number,
  name: string,
  options?: { readonly measurement?: string },
): RpcChannel<AttestedPeer> {
  return new RpcChannel({ endpoint: `127.0.0.1:${port}`, upgrade: client(name, options) });
}

async function ask(channel: RpcChannel): Promise<string> {
  const { value } = await createClient(Echo, channel).echo(
    { value: Buffer.from('who am I?') },
    { signal: never },
  );
  return Buffer.from(value).toString();
}

function identityOf(name: string): string {
  return createHash('sha256').update(name).digest('hex');
}

async function eventually(holds: () => boolean): Promise<void> {
  const untilMs = clock.monotonicMs() + 5_000;
  while (!holds() && clock.monotonicMs() < untilMs) await clock.sleep(5, never);
  expect(holds()).toBe(true);
}

async function retried(work: () => Promise<string>): Promise<string> {
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      return await work();
    } catch {
      await clock.sleep(50, never);
    }
  }
  return work();
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as { readonly port: number };
  listener.close();
  await once(listener, 'close');
  return port;
}
