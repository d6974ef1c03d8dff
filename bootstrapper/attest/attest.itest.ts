import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  lockedValue,
  bindingOfVerifyRequest,
  withLockRegister,
  type LockExpectation,
  type Verdict,
} from '../../internal/attestation/index.ts';
import { CredentialActivations, verifyEndorsement } from '../../internal/attestation/enrolment/index.ts';
import { lockCounterOf } from '../../internal/attestation/tpm/index.ts';
import { verifyKeyProof } from '../../internal/attestation/machinekey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../internal/attestation/policy/index.ts';
import { CertificateCache, parsePem } from '../../internal/attestation/x509/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles, KernelFiles } from '../../internal/file/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createSwtpmFactory, type Swtpm, type SwtpmFactory } from '../../internal/testing/index.ts';
import { undefineNv } from '../../internal/testing/tpm/test-commands.ts';
import { LOCK_COUNTER, type Tpm } from '../../internal/tpm/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { createMachineEvidence, type MachineEvidence } from './machine-evidence.ts';
import { createTpmLockRegister } from './tpm-lock-register.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const clusterId = 'a1'.repeat(16);
const pcr = 15;

let factory: SwtpmFactory;
let directory: string;
let chip: Swtpm;
let tpm: Tpm;

beforeAll(async () => void (factory = await createSwtpmFactory()));
afterAll(async () => void (await factory[Symbol.asyncDispose]()));
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'attest-'));
  await switchOn();
});
afterEach(async () => {
  await switchOff();
  await rm(directory, { recursive: true });
});

async function switchOn(): Promise<void> {
  chip = await factory.start({ copy: 'machine' });
  tpm = chip.open();
}

/** Starts the TPM with the state that it had when it was switched off. Its registers start at zero. */
async function switchBackOn(): Promise<void> {
  chip = await factory.start({ again: 'machine' });
  tpm = chip.open();
}

async function switchOff(): Promise<void> {
  await tpm[Symbol.asyncDispose]();
  await chip[Symbol.asyncDispose]();
}

const machineKeyPem = new Secret(
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
);

/** Creates the parts of the agent that prove the identity of the machine, as after an agent start. */
function boot(state = directory): { readonly evidence: MachineEvidence; readonly lock: NodeLock } {
  const files = new DiskFiles();
  const register = createTpmLockRegister({ tpm, pcr, signal });
  const lock = new NodeLock({ files, path: join(state, 'lock.json'), nowMs: () => 0, register });
  const evidence = createMachineEvidence({
    provisioning: {
      tpm: { kind: 'socket', path: chip.socketPath, lockPcr: pcr, sealedPcrs: [7] },
      processor: 'none',
    },
    tpm,
    machineKeyPem,
    files,
    kernel: new KernelFiles(),
    clock,
    keySecretPath: join(state, 'ak-secret'),
    mirrorLock: () => lock.mirrorToRegister(),
  });
  return { evidence, lock };
}

const policy = parsePolicy({
  name: 'test',
  profile: 'identity',
  machines: 'any-proved',
  tpm: { requiredPcrs: [0], attestationKeys: 'enrolling', eventLog: 'optional' },
});

/** Verifies the machine's evidence with a policy that does not require a specific identity. */
async function judge(evidence: MachineEvidence, expected: LockExpectation): Promise<Verdict> {
  const binding = randomBytes(64);
  const [validator] = createValidators(['tpm'], standardValidators({ ownerKeys: [] }));
  const document = await evidence.issuers[0].issue(binding, signal);
  return validator.validate(document, binding, {
    nowMs: clock.nowMs(),
    policy: { ...withLockRegister(policy, pcr, expected), machines: 'any' },
    collateral: { tpm: { attestationKeys: new Map() } },
  });
}

function certificatesIn(text: string): readonly Uint8Array[] {
  return parsePem(text, { label: 'CERTIFICATE', maxBlocks: 4 });
}

describe('MachineEvidence of a machine with a TPM', () => {
  test('issues a quote of the same attestation key after each restart of the agent, and offers machine-key evidence', async () => {
    const first = await judge(boot().evidence, { shows: 'boot-baseline' });
    const second = await judge(boot().evidence, { shows: 'boot-baseline' });
    expect(second.machineIdentity).toEqual(first.machineIdentity);
    expect(boot().evidence.issuers.map(({ variant }) => variant)).toEqual(['tpm', 'machine-key']);
  });

  test('shows the node lock as soon as the lock is acquired, and from the first quote after a power cycle', async () => {
    const { evidence, lock } = boot();
    await judge(evidence, { shows: 'boot-baseline' });
    await lock.acquire({ clusterId, by: 'init', id: 'one' });
    const verdict = await judge(evidence, { shows: 'locked', clusterId });
    expect(verdict.measurements.get('pcr15')).toEqual(lockedValue(new Uint8Array(32), clusterId));
    await expect(judge(evidence, { shows: 'boot-baseline' })).rejects.toMatchObject({
      code: 'attestation-register-mismatch',
    });
    await expect(judge(evidence, { shows: 'locked', clusterId: 'b2'.repeat(16) })).rejects.toMatchObject({
      code: 'attestation-register-mismatch',
    });
    await switchOff();
    chip = await factory.start(); // this TPM has never been extended, so its registers are zero
    tpm = chip.open();
    await rm(join(directory, 'ak-secret'));
    await judge(boot().evidence, { shows: 'locked', clusterId });
  });

  test('has a lock counter in each quote, which restoring an old disk cannot roll back', async () => {
    const { evidence, lock } = boot();
    const before = lockCounterOf(await judge(evidence, { shows: 'boot-baseline' })) ?? 0n;
    await lock.acquire({ clusterId, by: 'init', id: 'one' });
    const first = lockCounterOf(await judge(evidence, { shows: 'locked', clusterId }));
    expect(first).toBeGreaterThan(before);
    expect(await evidence.readLockCounter(signal)).toBe(first);
    await switchOff();
    await switchBackOn();
    expect(lockCounterOf(await judge(boot().evidence, { shows: 'locked', clusterId }))).toBe(first);
    // The machine is reset and locked to the same cluster again: the lock register (a PCR) has the same
    // value, but the counter is higher.
    await rm(join(directory, 'lock.json'));
    await switchOff();
    await switchBackOn();
    const again = boot();
    await again.lock.acquire({ clusterId, by: 'join', id: 'two' });
    const second = lockCounterOf(await judge(again.evidence, { shows: 'locked', clusterId }));
    expect(second).toBeGreaterThan(first ?? 0n);
    // The owner hierarchy can delete the counter. A new counter starts at a higher value.
    await tpm.use(signal, (connection, task) => undefineNv(connection, LOCK_COUNTER.index, task));
    await rm(join(directory, 'lock.json'));
    await switchOff();
    await switchBackOn();
    const third = boot();
    await third.lock.acquire({ clusterId, by: 'join', id: 'three' });
    const counted = lockCounterOf(await judge(third.evidence, { shows: 'locked', clusterId }));
    expect(counted).toBeGreaterThan(second ?? 0n);
  });

  test('a copy of the machine’s disk cannot issue the machine’s evidence with another TPM', async () => {
    const known = await judge(boot().evidence, { shows: 'boot-baseline' });
    const copy = await mkdtemp(join(tmpdir(), 'attest-copy-'));
    await cp(directory, copy, { recursive: true });
    await using other = await createSwtpmFactory();
    await using otherChip = await other.start();
    await switchOff();
    const mine = chip;
    try {
      chip = otherChip;
      tpm = otherChip.open();
      await expect(judge(boot(copy).evidence, { shows: 'boot-baseline' })).rejects.toMatchObject({
        code: 'tpm-storage-key-changed',
      });
      await tpm[Symbol.asyncDispose]();
    } finally {
      chip = mine;
      await rm(copy, { recursive: true });
      await switchOn();
    }
    expect((await judge(boot().evidence, { shows: 'boot-baseline' })).machineIdentity).toEqual(
      known.machineIdentity,
    );
  });

  test('answers a challenge for its endorsement key in the same session', async () => {
    const { evidence } = boot();
    const request = await evidence.readEnrolment(signal);
    if (request === undefined) throw new Error('no enrolment');
    const authorities = certificatesIn(`${factory.rootPem}${factory.issuerPem}`);
    const cache = new CertificateCache();
    const roots = new Set(certificatesIn(factory.rootPem).map((der) => cache.parse(der).fingerprint));
    const trust = { roots, authorities, pinnedKeys: new Set<string>() };
    const endorsement = verifyEndorsement(request, { trust, cache, nowMs: clock.nowMs() });
    const activations = new CredentialActivations();
    const challenge = activations.challenge(endorsement, 0);
    const session = randomBytes(64);
    const answer = await evidence.answerChallenge(challenge, session, signal);
    expect(() => new CredentialActivations().verifyAnswer({ id: challenge.id, answer, session }, 0)).toThrow(
      expect.objectContaining({ code: 'enrol-challenge-unknown' }),
    );
    expect(activations.verifyAnswer({ id: challenge.id, answer, session }, 0)).toBe(endorsement);
    const again = activations.challenge(endorsement, 0);
    const elsewhere = await evidence.answerChallenge(again, randomBytes(64), signal);
    expect(() => activations.verifyAnswer({ id: again.id, answer: elsewhere, session }, 0)).toThrow(
      expect.objectContaining({ code: 'enrol-answer-wrong' }),
    );
  });

  test('binds evidence for an operator to the names of this node, not to names that the caller chose', async () => {
    const { evidence } = boot();
    const request = { clusterId, nodeId: 'node-1', nonce: randomBytes(32) };
    const document = await evidence.forVerify(request, signal);
    const [validator] = createValidators(['tpm'], standardValidators({ ownerKeys: [] }));
    const context = {
      nowMs: clock.nowMs(),
      policy: { ...policy, machines: 'any' },
      collateral: { tpm: { attestationKeys: new Map() } },
    } as const;
    await validator.validate(document, bindingOfVerifyRequest(request), context);
    const other = bindingOfVerifyRequest({ ...request, nodeId: 'node-2' });
    await expect(validator.validate(document, other, context)).rejects.toMatchObject({
      code: 'quote-binding',
    });
  });
});

test('proveKey() proves the machine key inside a session', () => {
  const session = randomBytes(64);
  const proof = boot().evidence.proveKey('cluster/test/v1', session);
  expect(verifyKeyProof('cluster/test/v1', session, proof)).toBe(
    fingerprintOfKey(pubKeyDerOf(machineKeyPem)),
  );
});
