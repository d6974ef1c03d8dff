import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { OwnerKeyIssuer, OwnerKeyValidator, rawFromOwnerKey } from '../attestation/ownerkey/index.ts';
import { Secret } from '../secret/index.ts';
import {
  codeOf,
  createAtlsEnds,
  createTestIdentity,
  FakeIssuer,
  FakeValidator,
  MACHINE_KEY,
} from '../testing/atls/index.ts';
import { createTcpPair, FakeClock, settle } from '../testing/index.ts';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AtlsOptions,
  type VerifyingTrust,
  type Trust,
} from './index.ts';
import { FixedKeys } from './fake-tls-keys.ts';

const never = new AbortController().signal;

describe('aTLS connection between two honest ends', () => {
  test('both ends receive the verdict about each other', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const [server, client] = await Promise.all([ends.server(tcp.server), ends.client(tcp.client)]);
    for (const peer of [server, client]) {
      expect(peer.variant).toBe('tpm');
      expect(Buffer.from(peer.measurements.get('pcr0') ?? []).toString()).toBe('good');
      expect(peer.machineIdentity.kind).toBe('tpm-ak');
      expect(peer.verdict.accepted).toBe(true);
      expect(Object.isFrozen(peer)).toBe(true);
    }
    expect(hex(server.session)).toBe(hex(client.session));
  });

  test('both ends have the same session value, which is unique to the session', async () => {
    const ends = await createAtlsEnds();
    const sessions = [];
    for (let i = 0; i < 2; i++) {
      using tcp = await createTcpPair();
      const [server] = await Promise.all([ends.server(tcp.server), ends.client(tcp.client)]);
      sessions.push(hex(server.session));
    }
    expect(new Set(sessions).size).toBe(2);
  });

  test('the verdict keeps nothing of the evidence in memory except copies of the measurements', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const [server] = await Promise.all([ends.server(tcp.server), ends.client(tcp.client)]);
    const kept = [server.session, ...server.measurements.values(), ...server.verdict.measurements.values()];
    expect(kept.map(({ buffer }) => buffer.byteLength)).toEqual([64, 4, 4]);
  });

  test('every byte after READY is left to the application', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const sent = Buffer.alloc(100_000, 'application');
    const [server, client] = await Promise.all([
      ends.upgrade.server(tcp.server, never),
      ends.upgrade.client(tcp.client, never).then((upgraded) => {
        upgraded.socket.end(sent); // sent in the same event-loop turn as READY
        return upgraded;
      }),
    ]);
    const received: Buffer[] = [];
    server.socket.on('data', (chunk: Buffer) => received.push(chunk));
    await once(server.socket, 'end');
    expect(Buffer.compare(Buffer.concat(received), sent)).toBe(0);
    client.socket.destroy();
  });

  test.each([
    { name: 'all at once before the server reads', pieces: [] },
    { name: 'as one byte, then the rest', pieces: [1] },
    { name: 'byte by byte', pieces: Array.from({ length: 40 }, () => 1) },
    { name: 'two KiB at a time', pieces: Array.from({ length: 40 }, () => 2048) },
  ])('succeeds when the client’s TLS bytes arrive $name', async ({ pieces }) => {
    const ends = await createAtlsEnds();
    using near = await createTcpPair();
    using far = await createTcpPair();
    const client = ends.client(near.client);
    far.client.pipe(near.server);
    const first = Buffer.from(((await once(near.server, 'data')) as [Buffer])[0]);
    near.server.pause();
    const server = pieces.length === 0 ? undefined : ends.server(far.server);
    let at = 0;
    for (const size of pieces) {
      far.client.write(first.subarray(at, (at += size)));
      await settle();
    }
    far.client.write(first.subarray(at));
    near.server.pipe(far.client);
    if (server === undefined) await once(far.server, 'readable');
    const peers = await Promise.all([client, server ?? ends.server(far.server)]);
    expect(peers.map(({ kind }) => kind)).toEqual(['attested', 'attested']);
  });

  test('fails with atls-truncated when the client closes before its first byte', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const server = codeOf(ends.server(tcp.server));
    tcp.client.end();
    expect(await server).toBe('atls-truncated');
    expect(ends.clock.sleeping).toBe(0);
  });

  test('leaves behind no timer, and no listener except one for late errors', async () => {
    const ends = await createAtlsEnds();
    using tcp = await createTcpPair();
    const upgraded = await Promise.all([
      ends.upgrade.server(tcp.server, never),
      ends.upgrade.client(tcp.client, never),
    ]);
    expect(ends.clock.sleeping).toBe(0);
    for (const { socket } of upgraded) {
      expect(socket.listenerCount('readable')).toBe(0);
      expect(socket.writableLength).toBe(0);
      expect(socket.listenerCount('secure') + socket.listenerCount('secureConnect')).toBeLessThanOrEqual(1);
      expect(socket.listeners('error').length).toBeLessThanOrEqual(2); // one listener for late errors, one of Node
    }
  });

  test('the machine verifies the owner’s key, and the owner verifies the machine', async () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const owner = new OwnerKeyIssuer({ privKey: new Secret(privateKey) });
    const owners = new OwnerKeyValidator({ ownerKeys: [rawFromOwnerKey(privateKey)] });
    const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
    const { client, server } = await meet(
      {
        trust: 'mutual',
        shows: [owner],
        accepts: [new FakeValidator(machine)],
        rules: () => REJECT_ALL_RULES,
      },
      { trust: 'mutual', shows: [new FakeIssuer(machine)], accepts: [owners], rules: () => REJECT_ALL_RULES },
    );
    expect(client).toMatchObject({ status: 'fulfilled', value: { peer: { variant: 'tpm' } } });
    expect(server).toMatchObject({ status: 'fulfilled', value: { peer: { variant: 'owner-key' } } });
  });

  test('refuses the key of another owner', async () => {
    const owner = new OwnerKeyIssuer({ privKey: new Secret(generateKeyPairSync('ed25519').privateKey) });
    const other = rawFromOwnerKey(generateKeyPairSync('ed25519').publicKey);
    const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
    const issuer = new FakeIssuer(machine);
    const { client, server } = await meet(
      {
        trust: 'mutual',
        shows: [owner],
        accepts: [new FakeValidator(machine)],
        rules: () => REJECT_ALL_RULES,
      },
      {
        trust: 'mutual',
        shows: [issuer],
        accepts: [new OwnerKeyValidator({ ownerKeys: [other] })],
        rules: () => REJECT_ALL_RULES,
      },
    );
    expect(server).toMatchObject({
      reason: { code: 'atls-evidence-rejected', details: { check: 'owner-key-unknown' } },
    });
    expect(client).toMatchObject({ reason: { code: 'atls-alert-evidence-rejected' } });
    expect(issuer.issued).toBe(0);
  });

  test('verifies evidence in one direction when both ends configure it', async () => {
    const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
    const { client, server } = await meet(
      { trust: 'one-way-accept', accepts: [new FakeValidator(machine)], rules: () => REJECT_ALL_RULES },
      { trust: 'one-way-show', shows: [new FakeIssuer(machine)] },
    );
    expect(client).toMatchObject({ value: { peer: { kind: 'attested' } } });
    expect(server).toMatchObject({ value: { peer: { kind: 'unproven' } } });
  });

  test('refuses one-way evidence if only one end is configured for it', async () => {
    const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
    const issuer = new FakeIssuer(machine);
    const { client, server } = await meet(
      { trust: 'one-way-accept', accepts: [new FakeValidator(machine)], rules: () => REJECT_ALL_RULES },
      {
        trust: 'mutual',
        shows: [issuer],
        accepts: [new FakeValidator(machine)],
        rules: () => REJECT_ALL_RULES,
      },
    );
    expect(client).toMatchObject({ reason: { code: 'atls-no-common-format' } });
    expect(server).toMatchObject({ reason: { code: 'atls-alert-no-common-format' } });
    expect(issuer.issued).toBe(0);
  });
});

describe('aTLS configuration that trusts too much', () => {
  const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
  const validator = new FakeValidator(machine);
  const issuer = new FakeIssuer(machine);
  const rules = () => REJECT_ALL_RULES;
  const cases: readonly { name: string; given: unknown }[] = [
    { name: 'a missing trust mode', given: undefined },
    { name: 'an unknown trust mode', given: { trust: 'any', shows: [issuer], accepts: [validator] } },
    {
      name: 'trust mode mutual without a validator',
      given: { trust: 'mutual', shows: [issuer], accepts: [], rules },
    },
    {
      name: 'trust mode mutual without a list of validators',
      given: { trust: 'mutual', shows: [issuer], rules },
    },
    {
      name: 'trust mode mutual without an issuer',
      given: { trust: 'mutual', shows: [], accepts: [validator], rules },
    },
    {
      name: 'trust mode mutual without rules',
      given: { trust: 'mutual', shows: [issuer], accepts: [validator] },
    },
    {
      name: 'trust mode one-way-accept without a validator',
      given: { trust: 'one-way-accept', accepts: [], rules },
    },
    {
      name: 'an unknown attestation variant',
      given: { trust: 'one-way-show', shows: [{ variant: 'dummy', issue: () => undefined }] },
    },
    {
      name: 'a variant named like a property of Object.prototype',
      given: { trust: 'one-way-show', shows: [{ variant: 'constructor' }] },
    },
    { name: 'an issuer without a variant', given: { trust: 'one-way-show', shows: [{}] } },
    { name: 'a duplicate variant', given: { trust: 'one-way-show', shows: [issuer, issuer] } },
  ];
  test.each(cases)('refuses to start with $name', ({ given }) => {
    const clock = new FakeClock();
    const options = { trust: given, context: 'c', keys: new RotatingKeys({ clock }), clock } as never;
    expect(() => atlsServerUpgrade(options)).toThrow(expect.objectContaining({ code: 'atls-config' }));
    expect(() => atlsClientUpgrade(options)).toThrow(expect.objectContaining({ code: 'atls-config' }));
  });

  test('refuses to start with an empty context', () => {
    const clock = new FakeClock();
    const trust = { trust: 'one-way-show', shows: [issuer] } as const;
    expect(() => atlsServerUpgrade({ trust, context: '', keys: new RotatingKeys({ clock }), clock })).toThrow(
      expect.objectContaining({ code: 'atls-config' }),
    );
  });
});

describe('TLS keys of an aTLS end', () => {
  test('RotatingKeys replaces the key every hour', async () => {
    const clock = new FakeClock();
    const keys = new RotatingKeys({ clock });
    const first = await keys.current();
    await clock.advance(59 * 60_000);
    expect(await keys.current()).toBe(first);
    await clock.advance(60_000);
    expect(Buffer.compare((await keys.current()).spki, first.spki)).not.toBe(0);
  });

  test('FixedKeys refuses a certificate that is not P-256', async () => {
    const { certPem, keyPem } = await createTestIdentity('P-384');
    expect(() => new FixedKeys({ certPem, keyPem: new Secret(keyPem) })).toThrow(
      expect.objectContaining({ code: 'atls-config' }),
    );
  });

  test('checkCertificate refuses a certificate of another CA before any evidence is sent', async () => {
    const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
    const issuer = new FakeIssuer(machine);
    const trust = {
      trust: 'mutual',
      shows: [issuer],
      accepts: [new FakeValidator(machine)],
      rules: () => REJECT_ALL_RULES,
    } as const;
    const checkCertificate = () => {
      throw new Error('not ours');
    };
    const { client, server } = await meet(trust, trust, { checkCertificate });
    expect(server).toMatchObject({ reason: { code: 'atls-tls-certificate' } });
    expect(await codeOf(Promise.reject((client as PromiseRejectedResult).reason as Error))).toBe(
      'atls-alert-protocol',
    );
    expect(issuer.issued).toBeLessThanOrEqual(1); // the client's evidence; the server issues none
  });
});

async function meet(
  clientTrust: Trust,
  serverTrust: Trust,
  serverExtra: Partial<AtlsOptions<VerifyingTrust>> = {},
) {
  const clock = new FakeClock();
  const options = (trust: Trust) =>
    ({ trust, context: 'c', keys: new RotatingKeys({ clock }), clock }) as AtlsOptions<VerifyingTrust>;
  using tcp = await createTcpPair();
  const [client, server] = await Promise.allSettled([
    atlsClientUpgrade(options(clientTrust))(tcp.client, never),
    atlsServerUpgrade({ ...options(serverTrust), ...serverExtra })(tcp.server, never),
  ]);
  return { client, server };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
