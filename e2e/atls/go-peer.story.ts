import assert from 'node:assert/strict';
import { createHash, createPrivateKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { REJECT_ALL_RULES, type MutualTrust } from '../../internal/atls/index.ts';
import {
  OwnerKeyIssuer,
  OwnerKeyValidator,
  rawFromOwnerKey,
} from '../../internal/attestation/ownerkey/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  createTestIdentity,
  FakeIssuer,
  FakeValidator,
  RawAtls,
  rawEvidence,
  rawFrame,
  rawHello,
} from '../../internal/testing/atls/index.ts';
import { call, clientUpgrade, CONTEXT, dial, EchoServer } from './echo-server.ts';
import { GoPeer } from './go-peer.ts';

const machineKey = randomBytes(32);
const machine = { variant: 'tpm', key: machineKey, name: 'ours' } as const;
const seed = randomBytes(32);
const ownerKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
  format: 'der',
  type: 'pkcs8',
});
const ownerPubKey = rawFromOwnerKey(ownerKey);
const ownerText = `owner-key:${createHash('sha256').update(ownerPubKey).digest('hex')}`;

const showMachine = `fake:${machineKey.toString('hex')}:good@go`;
const acceptMachine = `fake:${machineKey.toString('hex')}`;
const goText = `tpm-ak:${createHash('sha256').update('go').digest('hex')}`;

const ours: MutualTrust = {
  trust: 'mutual',
  shows: [new FakeIssuer(machine)],
  accepts: [new FakeValidator(machine), new OwnerKeyValidator({ ownerKeys: [ownerPubKey] })],
  rules: () => REJECT_ALL_RULES,
};
const asOwner: MutualTrust = {
  ...ours,
  shows: [new OwnerKeyIssuer({ privKey: new Secret(ownerKey) })],
};
const honest = { context: CONTEXT, show: showMachine, accept: acceptMachine };

await using go = await GoPeer.build();
const identity = await createTestIdentity();

await test('TypeScript and Go compute the test vectors of docs/atls.md', async () => {
  assert.deepEqual(await go.vector(), {
    clientHello: `010100000026000200020001${'11'.repeat(32)}`,
    serverHello: `01010000002400010002${'22'.repeat(32)}`,
    transcript: '8af902d35c15fac4e8799775c9a893242fe6db4aca374956bb749d83ffe0d343',
    client:
      '7562823c07a6c6963509054a31466136f024c20994782bd7f11fb448c6d77f6a5ea4adc0a31c7ab682f6ff39736f484e7fb1a569515f3af1a8f8eeb1e9dd8c57',
    server:
      '72de4581af1927c340d0c9f267e1632b062825ba6333679330d92e8cd8b963d618b3cc048e1c04441c1776d67f666d7a232cf4178342217ac4c32c98b62b7792',
  });
});

await test('our server accepts a Go client', async (t) => {
  await using server = await EchoServer.start(ours);
  await t.test('our server accepts a Go client that shows machine evidence', async () => {
    const said = await go.call(server.address, honest);
    assert.deepEqual(said, { event: 'attested', peer: 'fake:ours', answer: goText });
  });
  await t.test('our server accepts a Go client that shows an owner key', async () => {
    const said = await go.call(server.address, { ...honest, show: `owner-key:${seed.toString('hex')}` });
    assert.deepEqual(said, { event: 'attested', peer: 'fake:ours', answer: ownerText });
  });
});

const clientFaults: readonly { readonly fault: string; readonly ours: string; readonly go: string }[] = [
  { fault: 'stale', ours: 'atls-evidence-rejected attestation-machine-unknown', go: 'alert-4' },
  { fault: 'hello-twice', ours: 'atls-frame-order', go: 'alert-1' },
  { fault: 'flag', ours: 'atls-frame-malformed', go: 'alert-1' },
  { fault: 'version', ours: 'atls-frame-version', go: 'alert-1' },
  { fault: 'preface', ours: 'atls-frame-version', go: 'alert-1' },
  { fault: 'oversized', ours: 'atls-frame-too-large', go: 'alert-2' },
  { fault: 'early', ours: 'atls-early-data', go: 'alert-1' },
  { fault: 'tls12', ours: 'atls-tls-version', go: 'tls-failed' },
  { fault: 'alpn', ours: 'atls-tls-alpn', go: 'tls-failed' },
  { fault: 'no-certificate', ours: 'atls-tls-certificate', go: 'truncated' },
];
await test('our server refuses a Go client', async (t) => {
  await using server = await EchoServer.start(ours);
  for (const { fault, ours: want, go: told } of clientFaults) {
    await t.test(`a Go peer that breaks the protocol by "${fault}" is refused: ${want}`, async () => {
      const said = await go.call(server.address, { ...honest, fault });
      assert.equal(await server.refusal(), want);
      assert.deepEqual(said, { event: 'refused', reason: told });
    });
  }
  await t.test(
    'our server refuses a client whose measurement differs from the policy: attestation-register-mismatch',
    async () => {
      const said = await go.call(server.address, { ...honest, show: showMachine.replace('good', 'bad') });
      assert.equal(await server.refusal(), 'atls-evidence-rejected attestation-register-mismatch');
      assert.equal(said.reason, 'alert-4');
    },
  );
  await t.test('our server refuses the key of another owner: owner-key-unknown', async () => {
    const said = await go.call(server.address, { ...honest, show: `owner-key:${'07'.repeat(32)}` });
    assert.equal(await server.refusal(), 'atls-evidence-rejected owner-key-unknown');
    assert.equal(said.reason, 'alert-4');
  });
  await t.test('our server refuses evidence for another context, because its binding differs', async () => {
    const said = await go.call(server.address, { ...honest, context: 'another cluster/joinservice' });
    assert.equal(await server.refusal(), 'atls-evidence-rejected attestation-machine-unknown');
    assert.equal(said.reason, 'alert-4');
  });
  await t.test('our server refuses a client without evidence: no common format', async () => {
    const said = await go.call(server.address, { ...honest, show: 'none' });
    assert.equal(await server.refusal(), 'atls-alert-no-common-format');
    assert.equal(said.reason, 'no-common-format');
  });
  await t.test('after these refusals, our server accepts the next honest client', async () => {
    assert.equal((await go.call(server.address, honest)).event, 'attested');
  });
});

await test('our client accepts a Go server', async (t) => {
  await t.test('our client accepts a Go server that shows machine evidence', async () => {
    await using server = await go.serve(honest);
    const said = await call(server.address, clientUpgrade(ours, identity));
    assert.deepEqual(said, { answer: 'fake:ours', peer: goText });
    assert.deepEqual(await server.next(), { event: 'attested', peer: 'fake:ours' });
  });
  await t.test(
    'our client with an owner key is accepted by a Go server, and accepts this server',
    async () => {
      await using server = await go.serve({
        ...honest,
        accept: `owner-key:${Buffer.from(ownerPubKey).toString('hex')}`,
      });
      const said = await call(server.address, clientUpgrade(asOwner, identity));
      assert.deepEqual(said, { answer: ownerText, peer: goText });
    },
  );
});

const serverFaults: readonly { readonly fault: string; readonly ours: string; readonly go: string }[] = [
  { fault: 'stale', ours: 'atls-evidence-rejected attestation-machine-unknown', go: 'alert-4' },
  { fault: 'hello-twice', ours: 'atls-early-data', go: 'alert-1' },
  { fault: 'flag', ours: 'atls-frame-malformed', go: 'alert-1' },
  { fault: 'version', ours: 'atls-frame-version', go: 'alert-1' },
  { fault: 'preface', ours: 'atls-frame-version', go: 'alert-1' },
  { fault: 'oversized', ours: 'atls-frame-too-large', go: 'alert-2' },
  { fault: 'tls12', ours: 'atls-tls-version', go: 'tls-failed' },
  { fault: 'alpn', ours: 'atls-tls-alpn', go: 'tls-failed' },
];
await test('our client refuses a Go server', async (t) => {
  for (const { fault, ours: want, go: told } of serverFaults) {
    await t.test(`a Go peer that breaks the protocol by "${fault}" is refused: ${want}`, async () => {
      await using server = await go.serve({ ...honest, fault });
      assert.deepEqual(await call(server.address, clientUpgrade(ours, identity)), { refused: want });
      assert.deepEqual(await server.next(), { event: 'refused', reason: told });
    });
  }
  await t.test(
    'our client refuses a server whose measurement differs from the policy: attestation-register-mismatch',
    async () => {
      await using server = await go.serve({ ...honest, show: showMachine.replace('good', 'bad') });
      const said = await call(server.address, clientUpgrade(ours, identity));
      assert.deepEqual(said, { refused: 'atls-evidence-rejected attestation-register-mismatch' });
      assert.deepEqual(await server.next(), { event: 'refused', reason: 'alert-4' });
    },
  );
});

const TPM = 2;
const goRefusals: readonly {
  readonly name: string;
  readonly send: (raw: RawAtls) => Promise<void>;
  readonly want: string;
  readonly told: number | 'closed';
}[] = [
  { name: 'garbage', send: async (raw) => raw.send(Buffer.alloc(64, 0xff)), want: 'frame-version', told: 1 },
  {
    name: 'READY first',
    send: async (raw) => raw.send(rawFrame(3, new Uint8Array(0))),
    want: 'frame-order',
    told: 1,
  },
  {
    name: 'an unknown type',
    send: async (raw) => raw.send(rawFrame(9, new Uint8Array(0))),
    want: 'frame-type',
    told: 1,
  },
  {
    name: 'a HELLO of 257 bytes',
    send: async (raw) => raw.send(rawFrame(1, Buffer.alloc(257))),
    want: 'frame-too-large',
    told: 2,
  },
  {
    name: 'its own nonce',
    send: async (raw) => raw.send((await raw.receive())!.bytes),
    want: 'reflection',
    told: 1,
  },
  {
    name: 'a format twice',
    send: async (raw) => raw.send(rawHello([TPM, TPM], randomBytes(32))),
    want: 'frame-malformed',
    told: 1,
  },
  {
    name: 'no common format',
    send: async (raw) => raw.send(rawHello([3], randomBytes(32))),
    want: 'no-common-format',
    told: 7,
  },
  {
    name: 'evidence of nothing',
    send: async (raw) => raw.send(rawHello([TPM], randomBytes(32)), rawEvidence(TPM, Buffer.alloc(64))),
    want: 'evidence-rejected',
    told: 4,
  },
  {
    name: 'evidence of another format',
    send: async (raw) => raw.send(rawHello([TPM], randomBytes(32)), rawEvidence(1, Buffer.alloc(97))),
    want: 'evidence-format',
    told: 1,
  },
];
await test('the Go server refuses the same protocol violations as our server', async (t) => {
  await using server = await go.serve(honest);
  for (const { name, send, want, told } of goRefusals) {
    await t.test(`the Go server refuses ${name}: ${want}`, async () => {
      using raw = await RawAtls.open(await dial(server.address), { role: 'client', identity });
      await send(raw);
      assert.equal(await raw.farewell(), told);
      assert.deepEqual(await server.next(), { event: 'refused', reason: want });
    });
  }
});
