import { generateKeyPairSync, sign } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createSoftKey, encodeStatement, quoteBody, signStatement } from '../../testing/tpm/fake-tpm.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { CURVES, digestOf, hashSizeBytes, type HashName } from '../algorithms.ts';
import { CC } from '../command.ts';
import { HIERARCHY } from '../commands/hierarchies.ts';
import { parseSealed } from '../seal.ts';
import { WireReader, WireWriter } from '../wire.ts';
import { parseNvAttest, parseQuoteAttest } from './attest.ts';
import { COUNTER_ATTRIBUTES, encodeNvPublic, nvNameOf, parseNvPublic } from './nv-public.ts';
import { encodePcrSelection, pcrDigest, readPcrSelection } from './pcr-selection.ts';
import { pcrPolicyDigest } from './policy-digest.ts';
import { hasAttributes, keyObjectOf, nameOf, parsePublic, qualifiedNameOf } from './public.ts';
import { canonicalSignature, encodeSignature, isCanonical, isSignedBy, parseSignature } from './signature.ts';
import {
  EK_ECC_P256,
  EK_POLICY_A_SHA256,
  EK_POLICY_B_BRANCHES_SHA384,
  EK_POLICY_B_SHA384,
  EK_RSA_2048,
} from './templates.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
/** The digest of the policy PolicySecret(endorsement). */
function endorsementSecretPolicyDigest(hash: HashName): Uint8Array {
  const name = new WireWriter().u32(HIERARCHY.endorsement).finish();
  const update = new WireWriter().u32(CC.policySecret).bytes(name).finish();
  return digestOf(hash, digestOf(hash, new Uint8Array(hashSizeBytes(hash)), update), new Uint8Array());
}

/** The digest of a PolicyOR policy. */
function orPolicyDigest(hash: HashName, branches: readonly Uint8Array[]): Uint8Array {
  const update = new WireWriter().u32(CC.policyOr).finish();
  return digestOf(hash, new Uint8Array(hashSizeBytes(hash)), update, ...branches);
}

const malformed = expect.objectContaining({ code: 'tpm-malformed' });
const soft = createSoftKey();
const values = new Map([[0, new Uint8Array(32)]]);
const statement = encodeStatement(soft, {
  extraData: new Uint8Array(32),
  body: quoteBody({ hash: 'sha256', pcrs: [0] }, values),
});

/** The same bytes with some replaced. */
function patched(bytes: Uint8Array, at: number, by: readonly number[]): Uint8Array {
  const copy = bytes.slice();
  copy.set(by, at);
  return copy;
}

describe('parsePublic()', () => {
  test('parses an attestation key and computes its Name', () => {
    const key = parsePublic(soft.publicArea);
    expect(hasAttributes(key, ['restricted', 'sign', 'fixedTpm'])).toBe(true);
    expect(hasAttributes(key, ['decrypt'])).toBe(false);
    expect(key.scheme).toEqual({ algorithm: 'ecdsa', hash: 'sha256' });
    expect(hex(nameOf(key))).toMatch(/^000b[0-9a-f]{64}$/);
    expect(hex(qualifiedNameOf(key, 0x4000000b))).not.toBe(hex(nameOf(key)));
  });

  test('parses the templates of endorsement keys', () => {
    const modulus = Buffer.alloc(256, 0xc1);
    const rsa = patched(EK_RSA_2048, EK_RSA_2048.length - 256, [...modulus]);
    expect(parsePublic(rsa)).toMatchObject({ symmetric: { keyBits: 128 }, scheme: undefined });
    expect(parsePublic(EK_ECC_P256)).toMatchObject({ key: { kind: 'ecc', curve: 'p256' } });
    expect(() => keyObjectOf(parsePublic(EK_ECC_P256).key)).toThrow(malformed); // (0, 0) is not a point on the curve
  });

  const hostile = [
    { name: 'an empty public area', bytes: new Uint8Array() },
    { name: 'an unknown key type', bytes: patched(soft.publicArea, 0, [0, 8]) },
    { name: 'SHA-1 as Name algorithm', bytes: patched(soft.publicArea, 2, [0, 4]) },
    { name: 'a reserved attribute that is set', bytes: patched(soft.publicArea, 4, [0x80]) },
    { name: 'a policy size that exceeds the structure', bytes: patched(soft.publicArea, 8, [0, 60]) },
    { name: 'a symmetric cipher other than AES', bytes: patched(soft.publicArea, 10, [0, 0x13]) },
    { name: 'an RSA scheme in an ECC key', bytes: patched(soft.publicArea, 12, [0, 0x14]) },
    { name: 'a signature scheme with SHA-1', bytes: patched(soft.publicArea, 14, [0, 4]) },
    { name: 'an unknown curve', bytes: patched(soft.publicArea, 16, [0, 5]) },
    { name: 'a key derivation scheme', bytes: patched(soft.publicArea, 18, [0, 0x20]) },
    { name: 'a coordinate of 31 bytes', bytes: patched(soft.publicArea, 20, [0, 31]) },
    { name: 'trailing bytes', bytes: Buffer.concat([soft.publicArea, Buffer.alloc(1)]) },
    { name: 'a missing last byte', bytes: soft.publicArea.slice(0, -1) },
    { name: 'an RSA exponent of 3', bytes: patched(EK_RSA_2048, EK_RSA_2048.length - 262, [0, 0, 0, 3]) },
    { name: 'an RSA modulus below 2048 bits', bytes: EK_RSA_2048 },
  ];
  test.each(hostile)('refuses $name', ({ bytes }) => {
    expect(() => parsePublic(bytes)).toThrow(malformed);
  });

  test('keyObjectOf() refuses a point that is not on the curve', () => {
    const moved = patched(soft.publicArea, soft.publicArea.length - 1, [(soft.publicArea.at(-1) ?? 0) ^ 1]);
    expect(() => keyObjectOf(parsePublic(moved).key)).toThrow(malformed);
  });

  test('parsePublic() throws only its coded error for arbitrary bytes', () => {
    const parse = (input: Uint8Array): unknown => keyObjectOf(parsePublic(input).key);
    expect(
      fuzz({ seeds: [soft.publicArea, EK_RSA_2048], parse, codes: ['tpm-malformed'] }).refused,
    ).toBeGreaterThan(100);
  });
});

describe('parseQuoteAttest()', () => {
  test('parses a quote of a TPM', () => {
    expect(parseQuoteAttest(statement)).toMatchObject({
      selection: { hash: 'sha256', pcrs: [0] },
      clock: { clockMs: 1000n, resetCount: 1, restartCount: 0, safe: true },
      pcrDigest: pcrDigest(values, 'sha256'),
    });
  });

  const safeAt = 4 + 2 + 36 + 34 + 16;
  const selectionAt = safeAt + 1 + 8;
  const hostile = [
    { name: 'a magic other than TPM_GENERATED_VALUE', bytes: patched(statement, 0, [0]), field: 'magic' },
    { name: 'an attestation of type certify', bytes: patched(statement, 4, [0x80, 0x17]), field: 'type' },
    { name: 'an attestation of type NV', bytes: patched(statement, 4, [0x80, 0x14]), field: 'type' },
    { name: 'a value of 2 in the field "safe"', bytes: patched(statement, safeAt, [2]), field: 'safe' },
    {
      name: 'two PCR selections',
      bytes: patched(statement, selectionAt + 3, [2]),
      field: 'number of PCR selections',
    },
    {
      name: 'a list without PCR selections',
      bytes: patched(statement, selectionAt + 3, [0]),
      field: 'number of PCR selections',
    },
    {
      name: 'a PCR selection of the SHA-1 bank',
      bytes: patched(statement, selectionAt + 4, [0, 4]),
      field: 'PCR bank',
    },
    {
      name: 'a PCR selection of four octets',
      bytes: patched(statement, selectionAt + 6, [4]),
      field: 'octets of PCR selection',
    },
    { name: 'trailing bytes', bytes: Buffer.concat([statement, Buffer.alloc(1)]), field: 'the end' },
  ];
  test.each(hostile)('refuses $name', ({ bytes, field }) => {
    const details = expect.objectContaining({ field }) as unknown;
    expect(() => parseQuoteAttest(bytes)).toThrow(
      expect.objectContaining({ code: 'tpm-malformed', details }),
    );
  });

  test('parseQuoteAttest() throws only its coded error for arbitrary bytes', () => {
    expect(
      fuzz({ seeds: [statement], parse: parseQuoteAttest, codes: ['tpm-malformed'] }).refused,
    ).toBeGreaterThan(100);
    expect(
      fuzz({ seeds: [statement], parse: parseNvAttest, codes: ['tpm-malformed'] }).refused,
    ).toBeGreaterThan(100);
  });
});

describe('TPM signatures', () => {
  const raw = parseSignature(signStatement(soft, statement));
  const canonical = canonicalSignature(raw, 'p256');
  const key = keyObjectOf(parsePublic(soft.publicArea).key);

  test('are valid in canonical form, and invalid for other signed bytes', () => {
    expect(isSignedBy(key, canonical, statement)).toBe(true);
    const other = patched(statement, 40, [(statement[40] ?? 0) ^ 1]);
    expect(isSignedBy(key, canonical, other)).toBe(false);
  });

  test('both (r, s) and (r, n - s) are valid, but only one of them is canonical', () => {
    if (canonical.algorithm !== 'ecdsa') throw new Error('not ECDSA');
    const s = CURVES.p256.order - BigInt(`0x${hex(canonical.s)}`);
    const twin = { ...canonical, s: Buffer.from(s.toString(16).padStart(64, '0'), 'hex') };
    expect(isSignedBy(key, twin, statement)).toBe(true);
    expect([
      isCanonical(canonical, parsePublic(soft.publicArea).key),
      isCanonical(twin, parsePublic(soft.publicArea).key),
    ]).toEqual([true, false]);
    expect(encodeSignature(canonicalSignature(twin, 'p256'))).toEqual(encodeSignature(canonical));
  });

  test('canonicalSignature() pads or strips r and s to the size of the curve', () => {
    if (canonical.algorithm !== 'ecdsa') throw new Error('not ECDSA');
    const padded = { ...canonical, r: Buffer.concat([Buffer.alloc(1), canonical.r]) };
    expect(isCanonical(padded, parsePublic(soft.publicArea).key)).toBe(false);
    expect(encodeSignature(canonicalSignature(padded, 'p256'))).toEqual(encodeSignature(canonical));
  });

  const order = Buffer.from(CURVES.p256.order.toString(16), 'hex');
  test.each([
    { name: 'a signature with r = 0', r: Buffer.alloc(32), s: Buffer.alloc(32, 1) },
    { name: 'a signature with s = 0', r: Buffer.alloc(32, 1), s: Buffer.alloc(32) },
    { name: 'a signature with r = n', r: order, s: Buffer.alloc(32, 1) },
    { name: 'a signature with s = n', r: Buffer.alloc(32, 1), s: order },
  ])('$name is refused', ({ r, s }) => {
    expect(() => canonicalSignature({ algorithm: 'ecdsa', hash: 'sha256', r, s }, 'p256')).toThrow(malformed);
    const key256 = parsePublic(soft.publicArea).key;
    expect(isCanonical({ algorithm: 'ecdsa', hash: 'sha256', r, s }, key256)).toBe(false);
  });

  test('RSASSA and RSAPSS signatures are valid only with their own padding', () => {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const signature = new Uint8Array(sign('sha256', statement, privateKey));
    expect(isSignedBy(publicKey, { algorithm: 'rsassa', hash: 'sha256', signature }, statement)).toBe(true);
    expect(isSignedBy(publicKey, { algorithm: 'rsapss', hash: 'sha256', signature }, statement)).toBe(false);
  });

  test.each([
    { name: 'the null signature', bytes: [0x00, 0x10] },
    { name: 'an HMAC', bytes: [0x00, 0x05, 0x00, 0x0b] },
    { name: 'a signature with SHA-1', bytes: [0x00, 0x18, 0x00, 0x04, 0, 1, 1, 0, 1, 1] },
    { name: 'a signature with trailing bytes', bytes: [0x00, 0x18, 0x00, 0x0b, 0, 1, 1, 0, 1, 1, 0] },
  ])('parseSignature() refuses $name', ({ bytes }) => {
    expect(() => parseSignature(Uint8Array.from(bytes))).toThrow(malformed);
  });

  test('parseSignature() throws only its coded error for arbitrary bytes', () => {
    const seeds = [signStatement(soft, statement)];
    expect(fuzz({ seeds, parse: parseSignature, codes: ['tpm-malformed'] }).refused).toBeGreaterThan(100);
  });
});

describe('PCR selections and policies', () => {
  test('readPcrSelection() returns every set of PCRs that encodePcrSelection() encoded', () => {
    const selection = { hash: 'sha384' as const, pcrs: [0, 7, 8, 15, 16, 23] };
    const reader = new WireReader(encodePcrSelection(selection), 'a selection');
    expect(readPcrSelection(reader)).toEqual(selection);
    expect(() => encodePcrSelection({ hash: 'sha256', pcrs: [24] })).toThrow(RangeError);
  });

  test('pcrPolicyDigest() equals the digest of TPM2_PolicyPCR in a new session', () => {
    // Recorded from swtpm 0.7.1: tpm2_policypcr -l sha256:0,15 with both PCRs at zero.
    const zero = new Uint8Array(32);
    const zeroes = new Map([
      [15, zero],
      [0, zero],
    ]);
    expect(hex(pcrPolicyDigest([15, 0], pcrDigest(zeroes, 'sha256')))).toBe(RECORDED_POLICY);
    expect(() => pcrPolicyDigest([], zero)).toThrow(malformed);
  });

  test('the policies of EK templates are PolicySecret(endorsement), and PolicyOR of that and another branch', () => {
    expect(hex(endorsementSecretPolicyDigest('sha256'))).toBe(hex(EK_POLICY_A_SHA256));
    expect(hex(endorsementSecretPolicyDigest('sha384'))).toBe(hex(EK_POLICY_B_BRANCHES_SHA384[0]));
    expect(hex(orPolicyDigest('sha384', EK_POLICY_B_BRANCHES_SHA384))).toBe(hex(EK_POLICY_B_SHA384));
  });
});

describe('NV public areas', () => {
  const counter = {
    index: 0x01800001,
    nameHash: 'sha256',
    attributes: COUNTER_ATTRIBUTES,
    authPolicy: new Uint8Array(),
    sizeBytes: 8,
  } as const;

  test('parseNvPublic() returns the encoded attributes of a counter', () => {
    expect(COUNTER_ATTRIBUTES).toBe(0x02060016);
    expect(parseNvPublic(encodeNvPublic(counter))).toEqual(counter);
  });

  test('nvNameOf() returns another Name once the index was written', () => {
    const written = { ...counter, attributes: counter.attributes | (1 << 29) };
    expect(hex(nvNameOf(written))).not.toBe(hex(nvNameOf(counter)));
  });

  test('parseNvPublic() throws only its coded error for arbitrary bytes', () => {
    expect(
      fuzz({ seeds: [encodeNvPublic(counter)], parse: parseNvPublic, codes: ['tpm-malformed'] }).refused,
    ).toBeGreaterThan(100);
  });
});

test('parseSealed() reads blobs with and without a name of the storage key, and throws only its coded error', () => {
  const head = (version: number): WireWriter =>
    new WireWriter()
      .u32(0x63545053)
      .u16(version)
      .bytes(encodePcrSelection({ hash: 'sha256', pcrs: [0, 7] }));
  const halves = new WireWriter().sized(new Uint8Array(78)).sized(new Uint8Array(158)).finish();
  const name = new Uint8Array(34).fill(1);
  const earlier = head(1).bytes(halves).finish();
  const sealed = head(2).sized(name).bytes(halves).finish();
  expect(parseSealed(earlier)).toMatchObject({ pcrs: [0, 7], storageKeyName: undefined });
  expect(parseSealed(sealed)).toMatchObject({ pcrs: [0, 7], storageKeyName: name });
  expect(
    fuzz({ seeds: [earlier, sealed], parse: parseSealed, codes: ['tpm-malformed'] }).refused,
  ).toBeGreaterThan(100);
});

const RECORDED_POLICY = '889217c6b242062ba6e0026693970fa9df8c6703835f404585d5abbb4f390bbc';
