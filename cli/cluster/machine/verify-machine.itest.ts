import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { InitApi } from '../../../initproto/gen/init_pb.js';
import {
  atlsServerUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../../internal/atls/index.ts';
import {
  answerChallenge,
  decodeChallenge,
  encodeEnrolmentRequest,
  readEnrolmentRequest,
} from '../../../internal/attestation/enrolment/index.ts';
import { proveKey } from '../../../internal/attestation/machinekey/index.ts';
import { OwnerKeyIssuer, OwnerKeyValidator } from '../../../internal/attestation/ownerkey/index.ts';
import { createTpmIssuer } from '../../../internal/attestation/tpm/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import {
  attestationSettings,
  parseClusterConfig,
  renderClusterConfig,
} from '../../../internal/config/index.ts';
import { RpcServer, type Handlers } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  createMemoryLogger,
  createSwtpmFactory,
  FakeCommands,
  MemoryFiles,
  type Swtpm,
  type SwtpmFactory,
} from '../../../internal/testing/index.ts';
import { extendPcr, type Tpm } from '../../../internal/tpm/index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import type { MachineRecord } from '../../workspace/index.ts';
import { MachineTrust } from './machine-trust.ts';
import { connectMachine } from './connect-machine.ts';
import { InitSession } from './init-session.ts';
import { verifyMachine } from './verify-machine.ts';
import { noPassphrases } from '../../workspace/fake-passphrases.ts';

const clock = new SystemClock();
const signal = new AbortController().signal;
const ownerPair = generateKeyPairSync('ed25519');
const owner = new OwnerKeyIssuer({ privKey: new Secret(ownerPair.privateKey) });
const ownerRaw = ownerPair.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
const machineKey = new Secret(
  createPrivateKey(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })),
);
const PCRS = Array.from({ length: 16 }, (_, pcr) => pcr);

let factory: SwtpmFactory;
let other: SwtpmFactory;
beforeAll(async () => {
  factory = await createSwtpmFactory();
  other = await createSwtpmFactory();
});
afterAll(async () => {
  await factory[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});

/**
 * A machine with real attested TLS and a real TPM. `enrols` is the TPM that it claims to have; a cheating
 * machine claims another one.
 */
async function serve(tpm: Tpm, enrols: Tpm = tpm): Promise<{ endpoint: string } & AsyncDisposable> {
  const handlers: Partial<Handlers<typeof InitApi, AttestedPeer>> = {
    describe: async (_request, { peer }) => ({
      key: proveKey('cluster/init/key/v1', peer.session, machineKey),
    }),
    readEnrolment: async (_request, call) => ({
      enrolment: encodeEnrolmentRequest(await readEnrolmentRequest({ tpm: enrols }, call.signal)),
    }),
    answerChallenge: async ({ challenge }, { peer, signal: alive }) => ({
      answer: await answerChallenge({ tpm }, decodeChallenge(challenge), peer.session, alive),
    }),
  };
  const server = new RpcServer<AttestedPeer>({
    clock,
    upgrade: atlsServerUpgrade({
      trust: {
        trust: 'mutual',
        shows: [createTpmIssuer({ tpm, pcrs: PCRS })],
        accepts: [new OwnerKeyValidator({ ownerKeys: [ownerRaw] })],
        rules: () => REJECT_ALL_RULES,
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    }),
    services: [{ service: InitApi, handlers }],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  const port = await server.listen('127.0.0.1', 0);
  return { endpoint: `127.0.0.1:${port}`, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function settingsFor(manufacturer: SwtpmFactory) {
  const attestation = {
    variants: ['tpm'],
    manufacturers: { roots: [manufacturer.rootPem], intermediates: [manufacturer.issuerPem] },
    policy: {
      name: 'p',
      profile: 'identity',
      machines: 'any-proved',
      tpm: { requiredPcrs: [0], eventLog: 'optional' },
    },
  };
  const text = renderClusterConfig({ name: 'prod', attestation });
  return attestationSettings(parseClusterConfig(text, 'cluster.yaml').attestation);
}

/** Connects to the machine and verifies it, as `cluster init` does before the upload. */
async function meet(
  endpoint: string,
  options: {
    readonly known?: MachineRecord;
    readonly manufacturer?: SwtpmFactory;
    readonly fingerprint?: string;
  } = {},
) {
  const { known, manufacturer = factory, fingerprint } = options;
  const host = new RecordingHost();
  const context = {
    host,
    ports: { files: new MemoryFiles(), commands: new FakeCommands(), clock },
    paths: { cache: '/c', data: '/d', config: '/f', workspace: '/w' },
    passphrases: noPassphrases,
    env: {},
    signal,
  };
  const trust = new MachineTrust({
    settings: settingsFor(manufacturer),
    collateral: {},
    fingerprint,
    known,
    lock: { shows: 'boot-baseline' },
  });
  const machine = { endpoint, fingerprint };
  using session = new InitSession({ machine, owner, trust, clock });
  const met = await connectMachine(context, session, { update: () => undefined });
  const verified = await verifyMachine(context, { session, ...met, known });
  return { ...verified, codes: host.codes };
}

async function withTpm<T>(chip: Swtpm, use: (tpm: Tpm) => Promise<T>): Promise<T> {
  await using running = chip;
  await using tpm = running.open();
  return await use(tpm);
}

describe('verifyMachine() with a TPM', () => {
  test('records the attestation key, its endorsement key (by credential activation) and the TPM clock', async () => {
    await withTpm(await factory.start({ copy: 'a' }), async (tpm) => {
      await using machine = await serve(tpm);
      const first = await meet(machine.endpoint);
      expect(first.record).toMatchObject({ variant: 'tpm', identity: expect.stringMatching(/^tpm-ek:/) });
      expect(first.codes).toEqual(['init-machine-verified', 'init-machine-warning']);
      const again = await meet(machine.endpoint, { known: first.record });
      expect(again.record).toMatchObject({ identity: first.record.identity });
      expect(again.codes).not.toContain('init-machine-copied');
    });
  });

  test('warns of a copied TPM, which its clock reveals', async () => {
    const seen = await withTpm(await factory.start({ copy: 'original' }), async (tpm) => {
      await using machine = await serve(tpm);
      const { record } = await meet(machine.endpoint);
      const { sighting } = record;
      if (sighting === undefined) throw new Error('no clock recorded');
      return { ...record, sighting: { ...sighting, resetCount: sighting.resetCount + 5 } };
    });
    await withTpm(await factory.start({ copy: 'copied' }), async (tpm) => {
      await using machine = await serve(tpm);
      const { codes } = await meet(machine.endpoint, { known: seen });
      expect(codes).toContain('init-machine-copied');
    });
  });

  test('refuses a machine with a genuine TPM if its key has another fingerprint than the operator gave', async () => {
    await withTpm(await factory.start({ copy: 'f' }), async (tpm) => {
      await using machine = await serve(tpm);
      const { fingerprint } = await meet(machine.endpoint);
      expect(await meet(machine.endpoint, { fingerprint })).toMatchObject({ fingerprint });
      await expect(meet(machine.endpoint, { fingerprint: `sha256:${'0'.repeat(64)}` })).rejects.toMatchObject(
        { code: 'cluster-other-machine' },
      );
    });
  });

  test('refuses another TPM than that of the known machine', async () => {
    const { record } = await withTpm(await factory.start({ copy: 'b' }), async (tpm) => {
      await using machine = await serve(tpm);
      return await meet(machine.endpoint);
    });
    await withTpm(await other.start({ copy: 'c' }), async (tpm) => {
      await using machine = await serve(tpm);
      await expect(meet(machine.endpoint, { known: record })).rejects.toMatchObject({
        code: 'atls-evidence-rejected',
        details: { check: 'quote-key-unknown' },
      });
    });
  });

  test('refuses a TPM of a manufacturer that is not configured', async () => {
    await withTpm(await factory.start({ copy: 'd' }), async (tpm) => {
      await using machine = await serve(tpm);
      await expect(meet(machine.endpoint, { manufacturer: other })).rejects.toMatchObject({
        code: expect.stringMatching(/^x509-/),
      });
    });
  });

  test('refuses a machine that presents the endorsement of another TPM', async () => {
    await using trusted = await factory.start({ copy: 'e' });
    await using trustedTpm = trusted.open();
    await withTpm(await other.start({ copy: 'f' }), async (tpm) => {
      await using machine = await serve(tpm, trustedTpm);
      await expect(meet(machine.endpoint)).rejects.toMatchObject({ code: 'cluster-evidence-unknown' });
    });
  });

  test('refuses a machine that belongs to another cluster', async () => {
    await withTpm(await factory.start({ copy: 'g' }), async (tpm) => {
      const digest = new Uint8Array(32).fill(7);
      await tpm.use(signal, (connection, alive) =>
        extendPcr(connection, { pcr: 15, hash: 'sha256', digest }, alive),
      );
      await using machine = await serve(tpm);
      await expect(meet(machine.endpoint)).rejects.toMatchObject({
        code: 'attestation-register-mismatch',
        details: { register: 'pcr15' },
      });
    });
  });
});
