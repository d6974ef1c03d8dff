import { describe, expect, test } from '@jest/globals';
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { Secret } from '../../secret/index.ts';
import type { Policy } from '../rules.ts';
import { proveKey, verifyKeyProof } from './key-proof.ts';
import { MachineKeyIssuer, MachineKeyValidator } from './machine-key.ts';

const never = new AbortController().signal;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const privKey = new Secret(privateKey);
const spki = publicKey.export({ type: 'spki', format: 'der' });
const id = createHash('sha256').update(spki).digest('hex');
const other = 'ab'.repeat(32);
const binding = randomBytes(64);
const evidence = Buffer.from(await new MachineKeyIssuer({ privKey }).issue(binding, never));

function contextOf(machines: Policy['machines']) {
  return { nowMs: 0, policy: { version: 'v', registers: new Map(), machines }, collateral: {} } as const;
}

describe('MachineKeyValidator', () => {
  test('accepts a machine whose fingerprint is listed', async () => {
    const validator = new MachineKeyValidator({ fingerprints: new Set([other, id]) });
    expect(await validator.validate(evidence, binding, contextOf('any-proved'))).toMatchObject({
      accepted: true,
      machineIdentity: { kind: 'machine-key', id, proof: 'pinned' },
    });
  });

  test('returns the identity of an unknown machine only if the policy accepts any machine', async () => {
    const validator = new MachineKeyValidator({ fingerprints: 'any' });
    const verdict = await validator.validate(evidence, binding, contextOf('any'));
    expect(verdict.machineIdentity).toEqual({ kind: 'machine-key', id, proof: 'unproved' });
    await expect(validator.validate(evidence, binding, contextOf('any-proved'))).rejects.toMatchObject({
      code: 'attestation-machine-unknown',
    });
  });

  const pinned = new Set([id]);
  test.each([
    {
      name: 'of a key that is not listed',
      code: 'machine-key-unknown',
      given: evidence,
      fingerprints: new Set([other]),
    },
    {
      name: 'while no key is listed',
      code: 'machine-key-unknown',
      given: evidence,
      fingerprints: new Set<string>(),
    },
    {
      name: 'without its first byte',
      code: 'machine-key-malformed',
      given: evidence.subarray(1),
      fingerprints: pinned,
    },
    {
      name: 'with a trailing byte',
      code: 'machine-key-malformed',
      given: Buffer.concat([evidence, Buffer.of(0)]),
      fingerprints: pinned,
    },
    {
      name: 'of another version',
      code: 'machine-key-malformed',
      given: Buffer.concat([Buffer.of(2), evidence.subarray(1)]),
      fingerprints: pinned,
    },
    {
      name: 'of a key of 32 zero bytes, with which anybody can forge signatures',
      code: 'machine-key-malformed',
      given: Buffer.concat([Buffer.of(1), Buffer.alloc(96)]),
      fingerprints: pinned,
    },
    {
      name: 'signed for another session',
      code: 'machine-key-signature',
      given: evidence,
      fingerprints: pinned,
      over: randomBytes(64),
    },
    {
      name: 'for a binding that is too short',
      code: 'attestation-binding-length',
      given: evidence,
      fingerprints: pinned,
      over: randomBytes(32),
    },
  ])('refuses evidence $name', async ({ code, given, fingerprints, over = binding }) => {
    const validator = new MachineKeyValidator({ fingerprints });
    await expect(validator.validate(given, over, contextOf('any-proved'))).rejects.toMatchObject({ code });
  });

  test('refuses a machine that the policy does not list', async () => {
    const validator = new MachineKeyValidator({ fingerprints: pinned });
    const context = contextOf(new Set([`machine-key:${other}`]));
    await expect(validator.validate(evidence, binding, context)).rejects.toMatchObject({
      code: 'attestation-machine-unknown',
    });
  });
});

describe('verifyKeyProof()', () => {
  const session = randomBytes(64);
  const proof = proveKey('cluster/test/v1', session, privKey);

  test('returns the fingerprint of the proved key', () => {
    expect(verifyKeyProof('cluster/test/v1', session, proof)).toBe(`sha256:${id}`);
  });

  test.each([
    { name: 'a proof for another label', code: 'machine-key-signature', label: 'cluster/other/v1' },
    { name: 'a proof for another session', code: 'machine-key-signature', over: randomBytes(64) },
    {
      name: 'a proof with another public key',
      code: 'machine-key-signature',
      publicKey: generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }),
    },
    { name: 'a truncated public key', code: 'machine-key-malformed', publicKey: spki.subarray(1) },
    {
      name: 'a public key that is not Ed25519',
      code: 'machine-key-malformed',
      publicKey: generateKeyPairSync('x25519').publicKey.export({ type: 'spki', format: 'der' }),
    },
    {
      name: 'a small-order key, with which anybody can forge signatures',
      code: 'machine-key-malformed',
      publicKey: Buffer.concat([spki.subarray(0, 12), Buffer.alloc(32)]),
    },
    { name: 'a signature that is too long', code: 'machine-key-malformed', signature: Buffer.alloc(65) },
  ])('refuses $name', ({ code, label = 'cluster/test/v1', over = session, ...changed }) => {
    const { publicKey = proof.publicKey, signature = proof.signature } = changed;
    expect(() => verifyKeyProof(label, over, { publicKey, signature })).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
