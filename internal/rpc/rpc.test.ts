import { afterEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { selfSignedCertificate } from '../crypto/index.ts';
import { CodedError, defineErrors, fault } from '../errors/index.ts';
import { Secret } from '../secret/index.ts';
import { createMemoryLogger } from '../testing/index.ts';
import { RpcChannel } from './channel.ts';
import { createClient } from './client.ts';
import { reportedError, RpcError } from './errors.ts';
import { implement, RpcServer, type Handlers, type RpcServerOptions } from './server.ts';
import { fingerprintOf, tlsClientUpgrade, tlsServerUpgrade, type TlsIdentity } from './tls-upgrade.ts';
import { InitApi } from '../../initproto/gen/init_pb.js';
import { SystemClock } from '../clock/index.ts';
import { encodeProxyHeader } from '../endpoint/index.ts';

const never = new AbortController().signal;
const testErrors = defineErrors({
  'test-refused': fault.operator.refused('no', 'ask nicely'),
});

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function createIdentity(): Promise<TlsIdentity & { readonly fingerprint: string }> {
  const keyPem = generateKeyPairSync('ed25519')
    .privateKey.export({ format: 'pem', type: 'pkcs8' })
    .toString();
  const certPem = await selfSignedCertificate({ keyPem, commonName: 'test', nowMs: Date.UTC(2026, 0, 1) });
  return { certPem, keyPem: new Secret(keyPem), fingerprint: fingerprintOf(new X509Certificate(certPem)) };
}

function only(fingerprint: string): (certificate: X509Certificate) => string {
  return (certificate) => {
    const shown = fingerprintOf(certificate);
    if (shown !== fingerprint)
      throw new RpcError('rpc-handshake', `expected ${fingerprint}, the peer shows ${shown}`);
    return shown;
  };
}

const refusing: Handlers<typeof InitApi, string> = {
  describe: () => Promise.reject(new CodedError(testErrors, 'test-refused', 'describing')),
  readEnrolment: async () => ({}),
  answerChallenge: async () => ({}),
  preflight: async () => ({}),
  statBlobs: () => Promise.resolve({}),
  uploadBlob: () => Promise.resolve({}),
  init: async function* () {},
  acknowledge: () => Promise.resolve({}),
};

async function start(
  handlers: Partial<Handlers<typeof InitApi, string>>,
  limits: Pick<RpcServerOptions<string>, 'pending' | 'maxConnections' | 'maxCallsPerConnection'> = {},
  isEverywhere = false,
) {
  const [server, client] = await Promise.all([createIdentity(), createIdentity()]);
  const rpc = new RpcServer<string>({
    clock: new SystemClock(),
    upgrade: tlsServerUpgrade({
      clock: new SystemClock(),
      identity: server,
      accept: only(client.fingerprint),
    }),
    services: [implement(InitApi, { ...refusing, ...handlers })],
    disclose: 'chain',
    log: createMemoryLogger().log,
    ...limits,
  });
  open.push(rpc);
  const port = await (isEverywhere ? rpc.listenEverywhere(0) : rpc.listen('127.0.0.1', 0));
  const dial = (as: TlsIdentity, expected: string, endpoint = `127.0.0.1:${port}`) => {
    const channel = new RpcChannel({
      endpoint,
      upgrade: tlsClientUpgrade({ clock: new SystemClock(), identity: as, accept: only(expected) }),
    });
    open.push({ [Symbol.asyncDispose]: async () => channel[Symbol.dispose]() });
    return createClient(InitApi, channel);
  };
  return { rpc, port, server, client, dial };
}

describe('an authenticated connection', () => {
  test('carries a unary call and tells the handler its peer', async () => {
    const { dial, client, server } = await start({
      describe: async (_request, call) => ({ fingerprint: call.peer }),
    });
    const answer = await dial(client, server.fingerprint).describe(
      { clientVersion: '0.1.0' },
      { signal: never },
    );
    expect(answer.fingerprint).toBe(client.fingerprint);
  });

  test('is not shared with a channel of another identity to the same endpoint', async () => {
    const { dial, client, server } = await start({
      describe: async (_request, call) => ({ fingerprint: call.peer }),
    });
    const first = dial(client, server.fingerprint);
    await first.describe({}, { signal: never });
    const other = dial(await createIdentity(), server.fingerprint).describe({}, { signal: never });
    await expect(other).rejects.toBeInstanceOf(RpcError);
    expect(await first.describe({}, { signal: never })).toMatchObject({ fingerprint: client.fingerprint });
  });

  test('tells the handler the address of its caller, of both IP families', async () => {
    const seen: (string | undefined)[] = [];
    const describe = async (_request: unknown, { address }: { readonly address?: string }) => {
      seen.push(address);
      return {};
    };
    const { dial, client, server, port } = await start({ describe }, {}, true);
    for (const endpoint of [`127.0.0.1:${port}`, `[::1]:${port}`])
      await dial(client, server.fingerprint, endpoint).describe({}, { signal: never });
    expect(seen).toEqual(['127.0.0.1', '::1']);
  });

  test('carries a server stream in order and stops the handler when the caller disconnects', async () => {
    const left = Promise.withResolvers<void>();
    const { dial, client, server } = await start({
      init: async function* (_request, call) {
        call.signal.addEventListener('abort', () => left.resolve());
        for (let sequence = 1n; ; sequence++) yield { sequence };
      },
    });
    const seen: bigint[] = [];
    for await (const event of dial(client, server.fingerprint).init({ initId: 'x' }, { signal: never })) {
      seen.push(event.sequence);
      if (seen.length === 500) break;
    }
    await left.promise;
    expect(seen).toEqual(Array.from({ length: 500 }, (_, i) => BigInt(i + 1)));
  });

  test('carries a client stream of many megabytes', async () => {
    const { dial, client, server } = await start({
      uploadBlob: async (requests) => {
        let bytes = 0;
        for await (const { part } of requests) if (part.case === 'chunk') bytes += part.value.length;
        return { complete: true, partialBytes: BigInt(bytes) };
      },
    });
    const chunk = new Uint8Array(1024 * 1024);
    async function* chunks() {
      for (let i = 0; i < 24; i++) yield { part: { case: 'chunk' as const, value: chunk } };
    }
    const answer = await dial(client, server.fingerprint).uploadBlob(chunks(), { signal: never });
    expect(answer.partialBytes).toBe(24n * 1024n * 1024n);
  });

  test('transports a coded error with its fix and exit code', async () => {
    const { dial, client, server } = await start({});
    const failure = dial(client, server.fingerprint).describe({}, { signal: never });
    await expect(failure).rejects.toMatchObject({
      code: 'test-refused',
      exit: 'refused',
      retryable: false,
      fix: 'ask nicely',
    });
  });

  test('transports the code of the cause, because a caller must know why a node refused what its curator asked', async () => {
    const { dial, client, server } = await start({
      describe: () => {
        const cause = reportedError('node-busy', 'no');
        return Promise.reject(new CodedError(testErrors, 'test-refused', 'asking n1', { cause }));
      },
    });
    const failure = dial(client, server.fingerprint).describe({}, { signal: never });
    await expect(failure).rejects.toMatchObject({ code: 'test-refused', causeCode: 'node-busy' });
  });

  test('ends a refused upload with the error of the peer, not with a broken pipe', async () => {
    const { dial, client, server } = await start({
      uploadBlob: async (requests) => {
        for await (const _ of requests) throw new CodedError(testErrors, 'test-refused', 'uploading');
        return {};
      },
    });
    async function* endless() {
      for (let i = 0; i < 1000; i++) yield { part: { case: 'chunk' as const, value: new Uint8Array(65536) } };
    }
    await expect(
      dial(client, server.fingerprint).uploadBlob(endless(), { signal: never }),
    ).rejects.toMatchObject({ code: 'test-refused' });
  });

  test('rejects an aborted call with the reason of its signal', async () => {
    const { dial, client, server } = await start({ describe: () => new Promise(() => undefined) });
    const abort = new AbortController();
    const call = dial(client, server.fingerprint).describe({}, { signal: abort.signal });
    setImmediate(() => abort.abort(new Error('enough')));
    await expect(call).rejects.toThrow('enough');
  });
});

describe('an unauthenticated connection', () => {
  test('is refused by a client that expects another server key, with an error that names both keys', async () => {
    const { dial, client } = await start({});
    const other = await createIdentity();
    const call = dial(client, other.fingerprint).describe({}, { signal: never, timeoutMs: 3000 });
    await expect(call).rejects.toMatchObject({
      code: 'rpc-handshake',
      message: expect.stringContaining(other.fingerprint),
    });
  });

  test('is refused before any call by a server that expects another client key', async () => {
    const { dial, server } = await start({ describe: async () => ({ fingerprint: 'must not be reached' }) });
    const otherClient = await createIdentity();
    const call = dial(otherClient, server.fingerprint).describe({}, { signal: never, timeoutMs: 1500 });
    await expect(call).rejects.toBeInstanceOf(CodedError);
  });

  test('is closed when it sends no TLS', async () => {
    const { port, dial, client, server } = await start({ describe: async () => ({ hostname: 'alive' }) });
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    expect((await dial(client, server.fingerprint).describe({}, { signal: never })).hostname).toBe('alive');
  });
});

describe('RpcServer with pending-connection limits', () => {
  /** Connects, sends these bytes and no other; resolves when the server closes the connection. */
  async function mute(
    port: number,
    localAddress: string,
    first: Uint8Array = new Uint8Array(),
  ): Promise<{ readonly closed: Promise<unknown> }> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.write(first);
    socket.on('error', () => undefined).resume();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
    await once(socket, 'connect');
    return { closed };
  }

  const alive = { describe: async () => ({ hostname: 'alive' }) };

  test('serves others while silent connections fill their slots and the queue', async () => {
    const pending = { maxHandshakes: 8, maxWaiting: 16, maxWaitMs: 60_000 };
    const { port, dial, client, server } = await start(alive, { pending });
    // Sends the first byte of a TLS handshake, so that the server does not wait a second for a relay header.
    for (let i = 0; i < 60; i++) await mute(port, `127.9.${i % 5}.${(i % 7) + 1}`, Uint8Array.of(22));
    const answer = await dial(client, server.fingerprint).describe({}, { signal: never, timeoutMs: 4_000 });
    expect(answer.hostname).toBe('alive');
  });

  /** Forwards connections from one address, and announces this client in front of each. @returns the endpoint */
  async function relay(port: number, localAddress: string, announced: string): Promise<string> {
    const forwarder = createServer((client) => {
      const server = connect({ port, host: '127.0.0.1', localAddress });
      server.write(encodeProxyHeader(announced, 1));
      for (const socket of [client, server]) {
        socket.on('error', () => undefined);
        open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
      }
      client.pipe(server);
      server.pipe(client);
    });
    forwarder.listen(0, '127.0.0.1');
    await once(forwarder, 'listening');
    open.push({ [Symbol.asyncDispose]: async () => void forwarder.close() });
    return `127.0.0.1:${(forwarder.address() as { port: number }).port}`;
  }

  test('serves the other clients of a relay while one of them stalls in many connections', async () => {
    const pending = { maxHandshakes: 8, maxWaiting: 16, maxWaitMs: 60_000 };
    const { port, dial, client, server } = await start(alive, { pending });
    for (let i = 0; i < 40; i++) await mute(port, '127.9.0.1', encodeProxyHeader('203.0.113.9', 1));
    const endpoint = await relay(port, '127.9.0.1', '198.51.100.7');
    const call = { signal: never, timeoutMs: 4_000 };
    expect((await dial(client, server.fingerprint, endpoint).describe({}, call)).hostname).toBe('alive');
  });

  test('gives an address that announces many clients no more than its own share', async () => {
    const pending = { maxHandshakes: 8, maxWaiting: 16, maxWaitMs: 60_000 };
    const { port, dial, client, server } = await start(alive, { pending });
    for (let i = 0; i < 60; i++) await mute(port, '127.9.0.1', encodeProxyHeader(`10.${i}.0.1`, 1));
    const answer = await dial(client, server.fingerprint).describe({}, { signal: never, timeoutMs: 4_000 });
    expect(answer.hostname).toBe('alive');
  });

  test('closes a connection with a malformed header', async () => {
    const { port } = await start(alive, { pending: { maxHandshakes: 1, maxWaiting: 4, maxWaitMs: 60_000 } });
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined).resume();
    const header = encodeProxyHeader('203.0.113.9', 1);
    socket.write(header.map((byte, index) => (index === 13 ? 0x21 : byte)));
    await once(socket, 'close');
  });

  test('refuses a connection that waits too long for its handshake', async () => {
    const { port } = await start(alive, { pending: { maxHandshakes: 1, maxWaiting: 4, maxWaitMs: 50 } });
    await mute(port, '127.9.0.1');
    const { closed } = await mute(port, '127.8.0.1');
    await closed;
  });

  test('closes the newest connection of the largest source beyond maxConnections', async () => {
    const pending = { maxHandshakes: 8, maxWaiting: 16, maxWaitMs: 60_000 };
    const { dial, client, server } = await start(alive, { pending, maxConnections: 2 });
    const [first, second, third] = [1, 2, 3].map(() => dial(client, server.fingerprint));
    const call = { signal: never, timeoutMs: 4_000 };
    expect((await first?.describe({}, call))?.hostname).toBe('alive');
    expect((await second?.describe({}, call))?.hostname).toBe('alive');
    await expect(third?.describe({}, call)).rejects.toMatchObject({ code: 'rpc-unreachable' });
    expect((await first?.describe({}, call))?.hostname).toBe('alive');
  });
});

test('maxCallsPerConnection delays further calls until one has ended', async () => {
  const begun: PromiseWithResolvers<void>[] = [];
  const more = Promise.withResolvers<void>();
  const describing = async () => {
    const call = Promise.withResolvers<void>();
    begun.push(call);
    if (begun.length > 2) more.resolve();
    await call.promise;
    return {};
  };
  const { dial, client, server } = await start({ describe: describing }, { maxCallsPerConnection: 2 });
  const only = dial(client, server.fingerprint);
  const call = { signal: never, timeoutMs: 8_000 };
  const first = only.describe({}, call);
  const others = [1, 2].map(() => only.describe({}, call));
  // When two calls over another connection have been served, a third call over this connection would have begun too,
  // unless the limit delays it.
  const beside = dial(client, server.fingerprint);
  for (let i = 0; i < 2; i++) await beside.acknowledge({}, call);
  expect(begun.length).toBe(2);
  begun[0]?.resolve();
  await more.promise;
  for (const { resolve } of begun) resolve();
  await Promise.all([first, ...others]);
});

describe('RpcServer.close()', () => {
  test('lets a running call finish', async () => {
    const bed = await start({
      acknowledge: async () => {
        setImmediate(() => void bed.rpc.close(2000));
        return {};
      },
    });
    const client = bed.dial(bed.client, bed.server.fingerprint);
    await expect(client.acknowledge({}, { signal: never, timeoutMs: 4000 })).resolves.toBeDefined();
  });

  test('ends endless streams', async () => {
    const bed = await start({
      init: async function* (_request, call) {
        yield { sequence: 1n };
        await new Promise((_, reject) =>
          call.signal.addEventListener('abort', () => reject(call.signal.reason as Error)),
        );
      },
    });
    const stream = bed.dial(bed.client, bed.server.fingerprint).init({}, { signal: never });
    const seen: bigint[] = [];
    const reading = (async () => {
      for await (const event of stream) {
        seen.push(event.sequence);
        void bed.rpc.close(500);
      }
    })();
    await expect(reading).rejects.toBeInstanceOf(CodedError);
    expect(seen).toEqual([1n]);
  });
});
