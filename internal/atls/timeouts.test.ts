import { describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import type { Issuer } from '../attestation/index.ts';
import {
  codeOf,
  createAtlsEnds,
  createTestIdentity,
  RawAtls,
  rawHello,
  type AtlsEnds,
} from '../testing/atls/index.ts';
import { createTcpPair, settle, type TcpPair } from '../testing/index.ts';

const peerIdentity = await createTestIdentity();

describe('aTLS connection to a slow or silent peer', () => {
  test('times out after 3s without a byte of TLS', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const server = watched(ends.server(tcp.server));
    await ends.clock.advance(2_999);
    expect(server.code).toBeUndefined();
    await ends.clock.advance(1);
    expect(server.code).toBe('atls-timeout');
    expect(tcp.server.destroyed).toBe(true);
    expect(ends.clock.sleeping).toBe(0);
  });

  test('times out at the client after 3s without a byte of TLS', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const client = watched(ends.client(tcp.client));
    await ends.clock.advance(3_000);
    expect(client.code).toBe('atls-timeout');
  });

  test('sends a timeout alert if the peer sends no HELLO within 3s after the TLS handshake', async () => {
    const ends = await createAtlsEnds();
    await withRawClient(ends, async (raw, server) => {
      await settle();
      await ends.clock.advance(3_000);
      expect(await raw.farewell()).toBe(3);
      expect(await server.ended).toBe('atls-timeout');
    });
  });

  test('times out after 3s although the peer sends one byte every 100ms', async () => {
    const ends = await createAtlsEnds();
    await withRawClient(ends, async (raw, server) => {
      const hello = rawHello([2], randomBytes(32));
      let sent = 0;
      while (server.code === undefined && sent < hello.length) {
        raw.send(hello.subarray(sent, ++sent));
        await ends.clock.advance(100);
      }
      expect(sent).toBeLessThanOrEqual(31);
      await raw.farewell();
      expect(await server.ended).toBe('atls-timeout');
    });
  });

  test('times out if the handshake is not complete 20s after HELLO', async () => {
    const ends = await createAtlsEnds();
    await withRawClient(ends, async (raw, server) => {
      raw.send(rawHello([2], randomBytes(32)));
      await raw.receive();
      await ends.clock.advance(19_999);
      expect(server.code).toBeUndefined();
      await ends.clock.advance(1);
      expect(await raw.farewell()).toBe(3);
      expect(await server.ended).toBe('atls-timeout');
    });
    expect(ends.issuer.server.issued).toBe(0);
  });

  test('times out while this end waits for a quote, and cancels the quote', async () => {
    let stopped = false;
    const started = Promise.withResolvers<void>();
    const issue: Issuer['issue'] = (_binding, signal) =>
      new Promise((_, reject) => {
        started.resolve();
        signal.addEventListener('abort', () => {
          stopped = true;
          reject(signal.reason as Error);
        });
      });
    const ends = await createAtlsEnds({ serverIssuer: () => ({ variant: 'tpm', issue }) });
    using tcp = await createTcpPair();
    const server = watched(ends.server(tcp.server));
    const client = watched(ends.client(tcp.client));
    await started.promise;
    await ends.clock.advance(20_000);
    expect([await server.ended, await client.ended].sort()).toContain('atls-timeout');
    expect(stopped).toBe(true);
  });

  test('closes without waiting for a peer that does not read the alert', async () => {
    const ends = await createAtlsEnds();
    await withRawClient(ends, async (raw, server) => {
      raw.tls.pause();
      raw.send(Buffer.alloc(64, 0xff));
      await settle();
      await ends.clock.advance(500);
      expect(await server.ended).toBe('atls-frame-version');
    });
    expect(ends.clock.sleeping).toBe(0);
  });
});

describe('closing an aTLS end', () => {
  test('closes pending connections immediately, without an alert and without leaks', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const closing = new AbortController();
    const reason = new Error('closing');
    const server = ends.upgrade.server(tcp.server, closing.signal);
    const raw = await RawAtls.open(tcp.client, { role: 'client', identity: peerIdentity });
    await raw.receive();
    closing.abort(reason);
    await expect(server).rejects.toBe(reason);
    expect(await raw.farewell()).toBe('closed');
    expect(ends.clock.sleeping).toBe(0);
  });

  test('refuses new connections', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const reason = new Error('closing');
    await expect(ends.upgrade.server(tcp.server, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(tcp.server.destroyed).toBe(true);
  });
});

describe('a flood of silent connections', () => {
  test('one source occupies at most 16 slots for 3s, while other sources are served', async () => {
    const ends = await createAtlsEnds();
    using flood = await pairs(100, '127.0.0.2');
    const floods = flood.pairs.map((tcp) => watched(ends.server(tcp.server)));
    await settle();
    expect(floods.filter(({ code }) => code === 'atls-busy')).toHaveLength(84);
    expect(floods.filter(({ code }) => code === undefined)).toHaveLength(16);
    expect(await meet(ends, '127.0.0.3')).toEqual(['resolved', 'resolved']);
    await ends.clock.advance(3_000);
    expect(floods.filter(({ code }) => code === 'atls-timeout')).toHaveLength(16);
    expect(await meet(ends, '127.0.0.2')).toEqual(['resolved', 'resolved']);
    expect(ends.issuer.server.issued).toBe(2);
    expect(ends.clock.sleeping).toBe(0);
  });

  test('many sources together occupy at most the total number of slots', async () => {
    const ends = await createAtlsEnds(); // with the limits of the product: 128, and 16 from one source
    using sources = new DisposableStack();
    const all: Watched[] = [];
    for (let host = 2; host <= 10; host++) {
      const { pairs: flood } = sources.use(await pairs(16, `127.0.0.${host}`));
      all.push(...flood.map((tcp) => watched(ends.server(tcp.server))));
      await settle();
    }
    expect(all.slice(0, 128).map(({ code }) => code)).toEqual(Array(128).fill(undefined));
    expect(all.slice(128).map(({ code }) => code)).toEqual(Array(16).fill('atls-busy'));
    await ends.clock.advance(3_000);
    expect(await meet(ends, '127.0.0.10')).toEqual(['resolved', 'resolved']);
  });

  test('slots are freed, so that a refused client succeeds later', async () => {
    const ends = await createAtlsEnds({ limits: { maxPending: 1, maxPendingPerSource: 1 } });
    using mute = await createTcpPair();
    const held = watched(ends.server(mute.server));
    using tcp = await createTcpPair();
    expect(await codeOf(ends.server(tcp.server))).toBe('atls-busy');
    tcp.server.destroy(); // destroys the socket, as internal/rpc does after a refusal
    expect(await codeOf(ends.client(tcp.client))).toMatch(/^atls-(connection|truncated)$/);
    mute.client.destroy();
    await held.ended;
    expect(await meet(ends)).toEqual(['resolved', 'resolved']);
  });
});

interface Watched {
  code: string | undefined;
  readonly ended: Promise<string>;
}

/** A promise whose outcome, if any, can be read without waiting. */
function watched(promise: Promise<unknown>): Watched {
  const ended = codeOf(promise);
  const seen: Watched = { code: undefined, ended };
  void ended.then((code) => (seen.code = code));
  return seen;
}

async function pairs(count: number, from: string): Promise<{ readonly pairs: TcpPair[] } & Disposable> {
  const made = await Promise.all(Array.from({ length: count }, () => createTcpPair(from)));
  return { pairs: made, [Symbol.dispose]: () => made.forEach((tcp) => tcp[Symbol.dispose]()) };
}

async function withRawClient(
  ends: AtlsEnds,
  script: (raw: RawAtls, server: Watched) => Promise<void>,
): Promise<void> {
  using tcp = await createTcpPair();
  const server = watched(ends.server(tcp.server));
  using raw = await RawAtls.open(tcp.client, { role: 'client', identity: peerIdentity });
  await script(raw, server);
}

async function meet(ends: AtlsEnds, from?: string): Promise<string[]> {
  using tcp = await createTcpPair(from);
  return await Promise.all([codeOf(ends.server(tcp.server)), codeOf(ends.client(tcp.client))]);
}
