import { describe, expect, test } from '@jest/globals';
import { createHmac, randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureVersion } from 'node:tls';
import type { Issuer } from '../attestation/index.ts';
import {
  ATLS_CONTEXT,
  codeOf,
  createAtlsEnds,
  createTestIdentity,
  FakeIssuer,
  FakeValidator,
  MACHINE_KEY,
  RawAtls,
  rawEvidence,
  rawFrame,
  rawHello,
  type AtlsEnds,
  type RawAtlsOptions,
  type TestIdentity,
} from '../testing/atls/index.ts';
import { createTcpPair, FakeClock } from '../testing/index.ts';
import { atlsServerUpgrade, REJECT_ALL_RULES, type TlsKeySource } from './index.ts';

const TPM = 2;
const peerIdentity = await createTestIdentity();
const READY = rawFrame(3, new Uint8Array(0));

describe('TLS that violates aTLS/1', () => {
  const cases: readonly { name: string; given: Partial<RawAtlsOptions>; want: string }[] = [
    {
      name: 'TLS 1.2',
      given: { identity: peerIdentity, maxVersion: 'TLSv1.2' },
      want: 'atls-tls-version',
    },
    { name: 'TLS without ALPN', given: { identity: peerIdentity, alpn: [] }, want: 'atls-tls-alpn' },
    { name: 'ALPN h2', given: { identity: peerIdentity, alpn: ['h2'] }, want: 'atls-tls-alpn' },
    { name: 'ALPN http/1.1', given: { identity: peerIdentity, alpn: ['http/1.1'] }, want: 'atls-tls-alpn' },
    {
      name: 'ALPN with another version of aTLS',
      given: { identity: peerIdentity, alpn: ['atls-h2/2'] },
      want: 'atls-tls-alpn',
    },
    { name: 'TLS without a client certificate', given: {}, want: 'atls-tls-certificate' },
  ];
  test.each(cases)('a server refuses $name: $want', async ({ given, want }) => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const server = codeOf(ends.server(tcp.server));
    const raw = await RawAtls.open(tcp.client, { role: 'client', ...given }).catch(() => undefined);
    expect(await server).toBe(want);
    raw?.tls.destroy();
    expect(ends.issuer.server.issued).toBe(0);
  });

  test.each([
    { name: 'TLS 1.2', given: { maxVersion: 'TLSv1.2' as SecureVersion }, want: 'atls-tls-version' },
    { name: 'TLS without ALPN', given: { alpn: [] }, want: 'atls-tls-alpn' },
    { name: 'ALPN h2', given: { alpn: ['h2'] }, want: 'atls-tls-alpn' },
  ])('a client refuses $name: $want', async ({ given, want }) => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const client = codeOf(ends.client(tcp.client));
    await RawAtls.open(tcp.server, { role: 'server', identity: peerIdentity, ...given }).catch(
      () => undefined,
    );
    expect(await client).toBe(want);
  });

  test('a server refuses a key that is not P-256', async () => {
    const ends = await createAtlsEnds();
    const identity = await createTestIdentity('P-384');
    expect(await withRawClient(ends, identity, () => undefined)).toMatchObject({
      server: 'atls-tls-certificate',
    });
  });

  test('a server refuses a client that uses the server’s own TLS key', async () => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, ends.identity.server, () => undefined);
    expect(result).toMatchObject({ server: 'atls-reflection' });
  });

  test('a client refuses a server that uses the client’s own TLS key', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const client = codeOf(ends.client(tcp.client));
    await RawAtls.open(tcp.server, { role: 'server', identity: ends.identity.client }).catch(() => undefined);
    expect(await client).toBe('atls-reflection');
  });

  test('a peer without TLS receives no data', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const server = codeOf(ends.server(tcp.server));
    tcp.client.write('GET / HTTP/1.1\r\n\r\n');
    expect(await server).toBe('atls-tls-failed');
  });

  test('a server offers no resumption, and refuses a resumed session of a TLS stack that offers it', async () => {
    const clock = new FakeClock();
    const identity = await createTestIdentity();
    const withTickets = createSecureContext({
      cert: identity.certPem,
      key: identity.keyPem,
      sessionIdContext: 'careless',
    });
    const keys: TlsKeySource = {
      current: () => Promise.resolve({ secureContext: withTickets, spki: Buffer.from('not compared here') }),
    };
    const ends = await createAtlsEnds();
    expect(await resumeAt((tcp) => ends.server(tcp))).toEqual({ resumed: false, server: 'atls-truncated' });
    const careless = atlsServerUpgrade({
      trust: {
        trust: 'mutual',
        shows: [new FakeIssuer({ variant: 'tpm', key: MACHINE_KEY })],
        accepts: [new FakeValidator({ variant: 'tpm', key: MACHINE_KEY })],
        rules: () => REJECT_ALL_RULES,
      },
      context: ATLS_CONTEXT,
      keys,
      clock,
    });
    expect(await resumeAt((tcp) => careless(tcp, new AbortController().signal))).toEqual({
      resumed: true,
      server: 'atls-tls-resumed',
    });
  });
});

describe('evidence of another session or context', () => {
  test('evidence that follows docs/atls.md is accepted', async () => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      const { binding } = await hellos(raw);
      raw.send(rawEvidence(TPM, evidenceFor(binding)));
      expect((await raw.receive())?.type).toBe(2);
      expect((await raw.receive())?.type).toBe(3);
      raw.send(READY);
    });
    expect(result.server).toBe('resolved');
    expect(ends.issuer.server.issued).toBe(1);
  });

  test('a server refuses frames that are replayed from an earlier session, and requests no quote', async () => {
    const ends = await createAtlsEnds();
    const recorded: Buffer[] = [];
    await withRawClient(ends, peerIdentity, async (raw) => {
      const { own, binding } = await hellos(raw);
      recorded.push(own, rawEvidence(TPM, evidenceFor(binding)));
      raw.send(recorded[1]!);
      await raw.receive();
      await raw.receive();
      raw.send(READY);
    });
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      raw.send(...recorded);
      expect(await raw.farewell()).toBe(4);
    });
    expect(result).toMatchObject({ server: 'atls-evidence-rejected' });
    expect(ends.issuer.server.issued).toBe(1);
  });

  test('a server refuses its own evidence when a client sends it back', async () => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      const server = (await raw.receive())!;
      const own = rawHello([TPM], randomBytes(32));
      raw.send(own);
      raw.send(rawEvidence(TPM, evidenceFor(raw.binding('server', ATLS_CONTEXT, own, server.bytes))));
      expect(await raw.farewell()).toBe(4);
    });
    expect(result).toMatchObject({ server: 'atls-evidence-rejected' });
  });

  test('a server refuses its own HELLO when a client sends it back', async () => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      raw.send((await raw.receive())!.bytes);
      expect(await raw.farewell()).toBe(1);
    });
    expect(result).toMatchObject({ server: 'atls-reflection' });
  });

  test('evidence for another context is refused', async () => {
    const ends = await createAtlsEnds({ clientContext: 'cluster-a/curator' });
    expect(await meet(ends)).toEqual({
      server: 'atls-evidence-rejected',
      client: 'atls-alert-evidence-rejected',
    });
    expect(ends.issuer.server.issued).toBe(0);
  });

  test('a client with another measurement is refused, and the server issues no quote', async () => {
    const ends = await createAtlsEnds({ clientMeasurement: 'bad' });
    expect(await meet(ends)).toEqual({
      server: 'atls-evidence-rejected',
      client: 'atls-alert-evidence-rejected',
    });
    expect(ends.issuer.server.issued).toBe(0);
  });

  test('a server with another measurement is refused', async () => {
    const ends = await createAtlsEnds({ serverMeasurement: 'bad' });
    expect(await meet(ends)).toEqual({
      client: 'atls-evidence-rejected',
      server: 'atls-alert-evidence-rejected',
    });
  });

  test('evidence that an issuer swaps between two sessions is refused in both sessions', async () => {
    const mixedUp = new MixedUpIssuer();
    const ends = await createAtlsEnds({ serverIssuer: (fake) => mixedUp.over(fake) });
    const results = await Promise.all([meet(ends), meet(ends)]);
    for (const result of results) {
      expect(result).toEqual({ client: 'atls-evidence-rejected', server: 'atls-alert-evidence-rejected' });
    }
  });

  test('the peer learns that an issuer failed, but not why', async () => {
    const serverIssuer = (): Issuer => ({
      variant: 'tpm',
      issue: () => Promise.reject(new Error('TPM 0x922')),
    });
    const ends = await createAtlsEnds({ serverIssuer });
    expect(await meet(ends)).toEqual({ server: 'atls-issue-failed', client: 'atls-alert-internal' });
  });

  test('evidence above the size limit is reported as an error and not truncated', async () => {
    const issue = () => Promise.resolve(new Uint8Array(65_535));
    const ends = await createAtlsEnds({ serverIssuer: () => ({ variant: 'tpm', issue }) });
    expect(await meet(ends)).toEqual({ server: 'atls-issue-failed', client: 'atls-alert-internal' });
  });
});

describe('a relay that has the TLS keys of both ends', () => {
  test('the server refuses a relay that forwards every frame', async () => {
    const ends = await createAtlsEnds();
    using near = await createTcpPair();
    using far = await createTcpPair();
    const client = codeOf(ends.client(near.client));
    const server = codeOf(ends.server(far.server));
    const [toClient, toServer] = await Promise.all([
      RawAtls.open(near.server, { role: 'server', identity: ends.identity.server }),
      RawAtls.open(far.client, { role: 'client', identity: ends.identity.client }),
    ]);
    toClient.tls.pipe(toServer.tls);
    toServer.tls.pipe(toClient.tls);
    expect({ server: await server, client: await client }).toEqual({
      server: 'atls-evidence-rejected',
      client: 'atls-alert-evidence-rejected',
    });
    expect(ends.issuer.server.issued).toBe(0);
  });

  test('the client refuses a relay that shows its own evidence to the server and forwards the server’s evidence', async () => {
    // Mallory has an accepted machine, so the server accepts her evidence. She then shows the server's evidence to the
    // client.
    const ends = await createAtlsEnds();
    using near = await createTcpPair();
    using far = await createTcpPair();
    const client = codeOf(ends.client(near.client));
    const server = codeOf(ends.server(far.server));
    const toClient = await RawAtls.open(near.server, { role: 'server', identity: ends.identity.server });
    const toServer = await RawAtls.open(far.client, { role: 'client', identity: ends.identity.client });
    const clientHello = (await toClient.receive())!;
    const serverHello = (await toServer.receive())!;
    toServer.send(clientHello.bytes); // gives both sessions equal nonces
    toClient.send(serverHello.bytes);
    const binding = toServer.binding('client', ATLS_CONTEXT, clientHello.bytes, serverHello.bytes);
    toServer.send(rawEvidence(TPM, evidenceFor(binding)));
    await toClient.receive();
    const serverEvidence = (await toServer.receive())!;
    toServer.send(READY);
    expect(await server).toBe('resolved');
    toClient.send(serverEvidence.bytes, READY);
    expect(await client).toBe('atls-evidence-rejected');
  });
});

describe('aTLS server whose peer disconnects or sends unexpected bytes', () => {
  test('cancels its quote when the client disconnects', async () => {
    const issuer = new HangingIssuer();
    const ends = await createAtlsEnds({ serverIssuer: () => issuer });
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      const { binding } = await hellos(raw);
      raw.send(rawEvidence(TPM, evidenceFor(binding)));
      await issuer.started;
      raw.tls.destroy();
    });
    expect(result).toMatchObject({ server: 'atls-truncated' });
    expect(await issuer.stopped).toBe(true);
  });

  test.each([
    { name: 'READY', given: READY, want: 'atls-early-data', alert: 1 },
    {
      name: 'an HTTP/2 request',
      given: Buffer.from('PRI * HTTP/2.0\r\n\r\n'),
      want: 'atls-early-data',
      alert: 1,
    },
    { name: 'a second HELLO', given: rawHello([TPM], randomBytes(32)), want: 'atls-early-data', alert: 1 },
    { name: 'an alert', given: rawFrame(15, Uint8Array.of(5)), want: 'atls-alert-internal', alert: 'closed' },
  ])('receives $name while it waits for its quote: $want', async ({ given, want, alert }) => {
    const issuer = new HangingIssuer();
    const ends = await createAtlsEnds({ serverIssuer: () => issuer });
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      const { binding } = await hellos(raw);
      raw.send(rawEvidence(TPM, evidenceFor(binding)));
      await issuer.started;
      raw.send(given);
      expect(await raw.farewell()).toBe(alert);
    });
    expect(result).toMatchObject({ server: want });
    expect(await issuer.stopped).toBe(true);
  });

  test('refuses application data in the same packet as the client’s evidence', async () => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, peerIdentity, async (raw) => {
      const { binding } = await hellos(raw);
      raw.send(rawEvidence(TPM, evidenceFor(binding)), READY, Buffer.from('PRI * HTTP/2.0\r\n\r\n'));
      expect(await raw.farewell()).toBe(1);
    });
    expect(result).toMatchObject({ server: 'atls-early-data' });
    expect(ends.issuer.server.issued).toBe(0);
  });

  test.each([
    { name: 'within a header', bytes: 3 },
    { name: 'within a HELLO', bytes: 20 },
    { name: 'after a HELLO', bytes: 42 },
  ])('reports atls-truncated for a client that disconnects $name', async ({ bytes }) => {
    const ends = await createAtlsEnds();
    const result = await withRawClient(ends, peerIdentity, (raw) => {
      raw.tls.end(rawHello([TPM, 3], randomBytes(32)).subarray(0, bytes));
    });
    expect(result).toMatchObject({ server: 'atls-truncated' });
  });

  test('serves other connections after a client that sent garbage', async () => {
    const ends = await createAtlsEnds();
    for (const garbage of [Buffer.alloc(1000, 0xff), Buffer.from('PRI * HTTP/2.0\r\n'), randomBytes(64)]) {
      await withRawClient(ends, peerIdentity, (raw) => raw.send(garbage));
    }
    expect(await meet(ends)).toEqual({ server: 'resolved', client: 'resolved' });
    expect(ends.issuer.server.issued).toBe(1);
  });
});

async function withRawClient(
  ends: AtlsEnds,
  identity: TestIdentity,
  script: (raw: RawAtls) => void | Promise<void>,
): Promise<{ readonly server: string }> {
  using tcp = await createTcpPair();
  const server = codeOf(ends.server(tcp.server));
  using raw = await RawAtls.open(tcp.client, { role: 'client', identity });
  await script(raw);
  return { server: await server };
}

async function meet(ends: AtlsEnds): Promise<{ readonly client: string; readonly server: string }> {
  using tcp = await createTcpPair();
  const [client, server] = await Promise.all([
    codeOf(ends.client(tcp.client)),
    codeOf(ends.server(tcp.server)),
  ]);
  return { client, server };
}

/** Exchanges HELLO frames as a client. Returns its own frame and the binding for the client's evidence. */
async function hellos(raw: RawAtls): Promise<{ readonly own: Buffer; readonly binding: Buffer }> {
  const own = rawHello([TPM], randomBytes(32));
  raw.send(own);
  const server = (await raw.receive())!;
  return { own, binding: raw.binding('client', ATLS_CONTEXT, own, server.bytes) };
}

/** Creates the same evidence as `FakeIssuer`, without calling it. */
function evidenceFor(binding: Buffer): Buffer {
  const measurement = Buffer.from('good');
  return Buffer.concat([
    createHmac('sha512', MACHINE_KEY).update(binding).update(measurement).digest(),
    measurement,
  ]);
}

async function resumeAt(serve: (tcp: Socket) => Promise<unknown>) {
  using first = await createTcpPair();
  const served = codeOf(serve(first.server));
  const raw = await RawAtls.open(first.client, { role: 'client', identity: peerIdentity });
  const session = await new Promise<Buffer>((resolve) => raw.tls.once('session', resolve));
  raw.tls.destroy();
  await served;
  using second = await createTcpPair();
  const server = codeOf(serve(second.server));
  const again = await RawAtls.open(second.client, { role: 'client', identity: peerIdentity, session });
  const resumed = again.tls.isSessionReused();
  await again.receive(); // reads the server's HELLO or the end of the stream
  again.tls.destroy();
  return { resumed, server: await server };
}

/** Gives each of two concurrent sessions the evidence that was issued for the other session. */
class MixedUpIssuer {
  #first:
    { readonly binding: Uint8Array; readonly give: (evidence: Promise<Uint8Array>) => void } | undefined;

  over(fake: FakeIssuer): Issuer {
    const issue = (binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> => {
      const first = this.#first;
      if (first !== undefined) {
        first.give(fake.issue(binding, signal));
        return fake.issue(first.binding, signal);
      }
      const { promise, resolve } = Promise.withResolvers<Uint8Array>();
      this.#first = { binding, give: resolve };
      return promise;
    };
    return { variant: 'tpm', issue };
  }
}

/** Never returns evidence. Reports when it was called and when its signal fired. */
class HangingIssuer implements Issuer {
  readonly variant = 'tpm';
  readonly #started = Promise.withResolvers<void>();
  readonly #stopped = Promise.withResolvers<boolean>();
  readonly started = this.#started.promise;
  readonly stopped = this.#stopped.promise;

  issue(_binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    this.#started.resolve();
    const { promise, reject } = Promise.withResolvers<Uint8Array>();
    signal.addEventListener('abort', () => {
      this.#stopped.resolve(signal.aborted);
      reject(signal.reason as Error);
    });
    return promise;
  }
}
