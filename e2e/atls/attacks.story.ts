import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { MutualTrust, EvidenceRules } from '../../internal/atls/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import { createTpmIssuer, TpmValidator } from '../../internal/attestation/tpm/index.ts';
import {
  createTestIdentity,
  RawAtls,
  rawEvidence,
  rawFrame,
  rawHello,
} from '../../internal/testing/atls/index.ts';
import { createSwtpmFactory } from '../../internal/testing/tpm/swtpm.ts';
import { extendPcr } from '../../internal/tpm/index.ts';
import { reportRefused } from '../attack-report.ts';
import { call, clientUpgrade, CONTEXT, dial, EchoServer, listen } from './echo-server.ts';

/**
 * The attacker (Mallory) controls the network, has the TLS keys of both ends, and owns an accepted machine with a
 * real TPM. Only the binding of evidence to its session keeps her from using evidence that comes from another
 * machine.
 */
const TPM = 2;
const READY = rawFrame(3, new Uint8Array(0));
const never = new AbortController().signal;
/** The error codes when a quote is genuine, but bound to another session. */
const REFUSED = 'atls-evidence-rejected quote-binding';
const TOLD = 'atls-alert-evidence-rejected';

const rules = (): EvidenceRules => ({
  policy: {
    version: '1',
    registers: new Map([['pcr10', { accepted: ['00'.repeat(32)], warnOnly: false }]]),
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolling',
      requiredPcrs: [10],
      requireSafeClock: false,
      eventLog: 'optional',
      loggedPcrs: [],
    },
  },
  collateral: { tpm: { attestationKeys: new Map() } },
});

await using stack = new AsyncDisposableStack();

async function startMachine(): Promise<Issuer> {
  const factory = stack.use(await createSwtpmFactory());
  const tpm = stack.use(stack.use(await factory.start()).open());
  return createTpmIssuer({ tpm, pcrs: [10] });
}

const [serverMachine, clientMachine, mallory] = [
  await startMachine(),
  await startMachine(),
  await startMachine(),
];
const trustOf = (machine: Issuer): MutualTrust => ({
  trust: 'mutual',
  shows: [machine],
  accepts: [new TpmValidator()],
  rules,
});
const server = stack.use(await EchoServer.start(trustOf(serverMachine)));
const clientIdentity = await createTestIdentity();
const malloryIdentity = await createTestIdentity();
const connectHonest = (address: string) =>
  call(address, clientUpgrade(trustOf(clientMachine), clientIdentity));

await test('an honest client and an honest server attest each other', async () => {
  const said = await connectHonest(server.address);
  assert.ok('answer' in said, JSON.stringify(said));
  assert.match(said.answer, /^tpm-ak:[0-9a-f]{64,}$/);
  assert.match(said.peer, /^tpm-ak:[0-9a-f]{64,}$/);
  assert.notEqual(said.answer, said.peer);
});

await test('the server accepts the machine of Mallory (the attacker) when it uses its real identity', async () => {
  const raw = await openAsMallory();
  const { binding } = await greet(raw);
  raw.send(rawEvidence(TPM, await mallory.issue(binding, never)));
  assert.equal((await raw.receive())?.type, 2);
  raw.tls.destroy();
  // This code means that the server had accepted the evidence and was waiting for the READY frame.
  assert.match(await server.refusal(), /^atls-(truncated|connection)$/);
});

await test('the server refuses a relay that forwards every frame unchanged', async (t) => {
  for (const { name, near, far } of [
    { name: 'a relay with its own TLS keys', near: malloryIdentity, far: await createTestIdentity() },
    { name: 'a relay with the TLS key of the server', near: server.identity, far: malloryIdentity },
    { name: 'a relay with the TLS keys of both ends', near: server.identity, far: clientIdentity },
  ]) {
    await t.test(name, async (step) => {
      using relay = await listen(pass);
      assert.deepEqual(await connectHonest(relay.address), { refused: TOLD });
      await refusedWith(step, REFUSED);

      async function pass(tcp: Socket): Promise<void> {
        const toServer = dial(server.address).then((socket) =>
          RawAtls.open(socket, { role: 'client', identity: far }),
        );
        const toClient = RawAtls.open(tcp, { role: 'server', identity: near });
        splice(await toClient, await toServer);
      }
    });
  }
});

await test('an attacker relays between client and server with an accepted machine, both TLS keys and equal nonces', async (t) => {
  await t.test('the client refuses evidence that the relay forwards from the server', async (step) => {
    using relay = await listen(divert);
    assert.deepEqual(await connectHonest(relay.address), { refused: REFUSED });
    reportRefused(step, step.name, 'the client', REFUSED);
    // This code means that the server had accepted Mallory's evidence and was waiting for the READY frame.
    assert.equal(await server.refusal(), 'atls-truncated');

    async function divert(tcp: Socket): Promise<void> {
      const { toClient, toServer, clientHello, serverHello } = await between(tcp);
      const binding = toServer.binding('client', CONTEXT, clientHello, serverHello);
      toServer.send(rawEvidence(TPM, await mallory.issue(binding, never)));
      await toClient.receive();
      const evidence = await toServer.receive();
      toClient.send(evidence!.bytes, READY);
      toServer.tls.destroy();
    }
  });

  await t.test('the server refuses evidence that the relay forwards from the client', async (step) => {
    using relay = await listen(divert);
    assert.deepEqual(await connectHonest(relay.address), { refused: 'atls-truncated' });
    await refusedWith(step, REFUSED);

    async function divert(tcp: Socket): Promise<void> {
      const { toClient, toServer } = await between(tcp);
      toServer.send((await toClient.receive())!.bytes);
      assert.equal(await toServer.farewell(), 4);
      toClient.tls.destroy();
    }
  });

  /** Relays both HELLO frames, so that only the TLS exporter differs between the two sessions. */
  async function between(tcp: Socket) {
    const toServer = await RawAtls.open(await dial(server.address), {
      role: 'client',
      identity: clientIdentity,
    });
    const toClient = await RawAtls.open(tcp, { role: 'server', identity: server.identity });
    const [clientHello, serverHello] = [await toClient.receive(), await toServer.receive()];
    toServer.send(clientHello!.bytes);
    toClient.send(serverHello!.bytes);
    return { toClient, toServer, clientHello: clientHello!.bytes, serverHello: serverHello!.bytes };
  }
});

await test('a relay that shortens the list of evidence formats is refused, because evidence is bound to both HELLO frames', async (t) => {
  using relay = await listen(shorten);
  assert.deepEqual(await connectHonest(relay.address), { refused: TOLD });
  await refusedWith(t, REFUSED);

  async function shorten(tcp: Socket): Promise<void> {
    const toServer = await RawAtls.open(await dial(server.address), {
      role: 'client',
      identity: clientIdentity,
    });
    const toClient = await RawAtls.open(tcp, { role: 'server', identity: server.identity });
    const hello = (await toClient.receive())!;
    toServer.send(rawHello([1, TPM], hello.body.subarray(-32)));
    splice(toClient, toServer);
  }
});

await test('replayed frames are refused', async (t) => {
  const first = await openAsMallory();
  const { own, binding } = await greet(first);
  const evidence = rawEvidence(TPM, await mallory.issue(binding, never));
  first.send(evidence);
  await first.receive();
  await first.receive();
  first.send(READY);
  await t.test('replayed frames of a whole accepted session are refused', async (step) => {
    const again = await openAsMallory();
    again.send(own, evidence);
    assert.equal(await again.farewell(), 4);
    await refusedWith(step, REFUSED);
  });
  await t.test(
    'evidence that the same machine sent in an earlier session is refused, even with the same TLS key',
    async (step) => {
      const again = await openAsMallory();
      await greet(again);
      again.send(evidence);
      assert.equal(await again.farewell(), 4);
      await refusedWith(step, REFUSED);
    },
  );
  first.tls.destroy();
});

await test('the server refuses its own frames when a client reflects them', async (t) => {
  await t.test('the server refuses its own HELLO', async (step) => {
    const raw = await openAsMallory();
    raw.send((await raw.receive())!.bytes);
    assert.equal(await raw.farewell(), 1);
    await refusedWith(step, 'atls-reflection');
  });
  await t.test('the server refuses a client that uses the TLS key of the server', async (step) => {
    const raw = await RawAtls.open(await dial(server.address), { role: 'client', identity: server.identity });
    assert.equal(await raw.farewell(), 'closed');
    await refusedWith(step, 'atls-reflection');
  });
  await t.test('the server refuses the evidence that it made for the same session', async (step) => {
    const raw = await openAsMallory();
    const { own, serverHello } = await greet(raw);
    // Mallory makes the server's machine issue evidence for the role "server", as the server does in this
    // handshake.
    const binding = raw.binding('server', CONTEXT, own, serverHello);
    raw.send(rawEvidence(TPM, await serverMachine.issue(binding, never)));
    assert.equal(await raw.farewell(), 4);
    await refusedWith(step, REFUSED);
  });
});

await test('the server refuses downgraded protocols', async (t) => {
  const cases = [
    { name: 'TLS 1.2', options: { maxVersion: 'TLSv1.2' }, want: 'atls-tls-version' },
    { name: 'no ALPN', options: { alpn: [] }, want: 'atls-tls-alpn' },
    { name: 'plain gRPC', options: { alpn: ['h2'] }, want: 'atls-tls-alpn' },
  ] as const;
  for (const { name, options, want } of cases) {
    await t.test(name, async (step) => {
      const tcp = await dial(server.address);
      await RawAtls.open(tcp, { role: 'client', identity: malloryIdentity, ...options }).catch(
        () => undefined,
      );
      await refusedWith(step, want);
    });
  }
  await t.test('the server refuses a connection without a client certificate', async (step) => {
    await RawAtls.open(await dial(server.address), { role: 'client' }).catch(() => undefined);
    await refusedWith(step, 'atls-tls-certificate');
  });
  await t.test('the server refuses frames of another protocol version', async (step) => {
    const raw = await openAsMallory();
    raw.send(rawFrame(1, Buffer.alloc(36), 2));
    assert.equal(await raw.farewell(), 1);
    await refusedWith(step, 'atls-frame-version');
  });
});

await test('a TLS session is not resumed: the second connection shows new evidence', async (t) => {
  const first = await openAsMallory();
  const session = await new Promise<Buffer>((resolve) => first.tls.once('session', resolve));
  first.tls.destroy();
  await server.refusal();
  const tcp = await dial(server.address);
  const again = await RawAtls.open(tcp, { role: 'client', identity: malloryIdentity, session });
  assert.equal(again.tls.isSessionReused(), false);
  again.send(rawFrame(3, new Uint8Array(0)));
  assert.equal(await again.farewell(), 1);
  await refusedWith(t, 'atls-frame-order');
});

await test('parallel handshakes share quotes of one TPM, and each gets its own evidence', async (t) => {
  await t.test('parallel handshakes share quotes, and each gets evidence for its own session', async () => {
    const said = await Promise.all(Array.from({ length: 12 }, () => connectHonest(server.address)));
    assert.ok(
      said.every((each) => 'answer' in each),
      JSON.stringify(said),
    );
  });
  await t.test(
    'evidence from a shared quote is refused in the other session that shares the quote',
    async (step) => {
      const [a, b] = [await openAsMallory(), await openAsMallory()];
      const [helloA, helloB] = [await greet(a), await greet(b)];
      const [forA, forB] = await Promise.all([
        mallory.issue(helloA.binding, never),
        mallory.issue(helloB.binding, never),
      ]);
      const { claims } = await new TpmValidator().validate(forA, helloA.binding, { ...rules(), nowMs: 0 });
      assert.equal(claims['batchSize'], 2); // Both sessions share one quote: it signs a Merkle tree with two leaves.
      a.send(rawEvidence(TPM, forB));
      assert.equal(await a.farewell(), 4);
      await refusedWith(step, REFUSED);
      b.send(rawEvidence(TPM, forB));
      assert.equal((await b.receive())?.type, 2);
      b.tls.destroy();
      await server.refusal();
    },
  );
});

await test('the server refuses evidence for another service of the same cluster', async (t) => {
  const upgrade = clientUpgrade(
    trustOf(clientMachine),
    clientIdentity,
    CONTEXT.replace('joinservice', 'curator'),
  );
  assert.deepEqual(await call(server.address, upgrade), { refused: TOLD });
  await refusedWith(t, REFUSED);
});

await test('the server refuses a machine that runs other software and reports the different register, but tells the peer only that it is refused', async (t) => {
  // A separate server, because a closed gRPC channel may still connect once, and the shared server would
  // record that as a refusal.
  const fresh = stack.use(await EchoServer.start(trustOf(serverMachine)));
  const factory = stack.use(await createSwtpmFactory());
  const tpm = stack.use(stack.use(await factory.start()).open());
  await tpm.use(never, (connection, signal) =>
    extendPcr(connection, { pcr: 10, hash: 'sha256', digest: Buffer.alloc(32, 1) }, signal),
  );
  const trust = trustOf(createTpmIssuer({ tpm, pcrs: [10] }));
  assert.deepEqual(await call(fresh.address, clientUpgrade(trust, clientIdentity)), { refused: TOLD });
  await refusedWith(t, 'atls-evidence-rejected attestation-register-mismatch', fresh);
});

await test('the server still serves honest clients after all attacks', async () => {
  assert.ok('answer' in (await connectHonest(server.address)));
});

/** Asserts that the server has refused the attack of this test with this code, and reports the attack. */
async function refusedWith(attack: TestContext, code: string, by = server): Promise<void> {
  assert.equal(await by.refusal(), code);
  reportRefused(attack, attack.name, 'the server', code);
}

async function openAsMallory(): Promise<RawAtls> {
  return RawAtls.open(await dial(server.address), { role: 'client', identity: malloryIdentity });
}

/** Sends HELLO, receives the HELLO of the server, and returns both with the binding that evidence needs. */
async function greet(raw: RawAtls) {
  const own = rawHello([TPM], randomBytes(32));
  raw.send(own);
  const serverHello = (await raw.receive())!.bytes;
  return { own, serverHello, binding: raw.binding('client', CONTEXT, own, serverHello) };
}

function splice(toClient: RawAtls, toServer: RawAtls): void {
  toClient.forwardTo(toServer);
  toServer.forwardTo(toClient);
}
