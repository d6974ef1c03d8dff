import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createHash, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { Secret } from '../../secret/index.ts';
import { fuzz } from '../../testing/fuzz.ts';
import type { ValidationContext } from '../verdict.ts';
import { OwnerKeyError } from './errors.ts';
import { OwnerKeyIssuer, OwnerKeyValidator, parseOwnerKeyEvidence } from './owner-key.ts';
import { ownerPubKeyFromRaw, rawFromOwnerKey } from './pub-key.ts';

const never = new AbortController().signal;
const context: ValidationContext = {
  nowMs: 0,
  policy: { version: '7', registers: new Map(), machines: new Set() },
  collateral: {},
};
const owner = generateKeyPairSync('ed25519').privateKey;
const other = generateKeyPairSync('ed25519').privateKey;
const issuer = new OwnerKeyIssuer({ privKey: new Secret(owner) });
const validator = new OwnerKeyValidator({ ownerKeys: [rawFromOwnerKey(other), rawFromOwnerKey(owner)] });
const binding = Buffer.alloc(64, 1);
const evidence = await issuer.issue(binding, never);

describe('OwnerKeyValidator', () => {
  test('accepts an owner who signed this session, and returns the owner’s fingerprint', async () => {
    const verdict = await validator.validate(evidence, binding, context);
    expect(verdict.accepted).toBe(true);
    expect(verdict.machineIdentity).toEqual({
      kind: 'owner-key',
      id: createHash('sha256').update(rawFromOwnerKey(owner)).digest('hex'),
      proof: 'pinned',
    });
    expect(verdict.policyVersion).toBe('7');
    expect(evidence).toHaveLength(97);
  });

  const cases: readonly {
    name: string;
    given: () => Promise<Uint8Array>;
    binding?: Uint8Array;
    want: string;
  }[] = [
    {
      name: 'an owner key that is not listed',
      given: () =>
        new OwnerKeyIssuer({ privKey: new Secret(generateKeyPairSync('ed25519').privateKey) }).issue(
          binding,
          never,
        ),
      want: 'owner-key-unknown',
    },
    {
      name: 'evidence signed for another session',
      given: async () => evidence,
      binding: Buffer.alloc(64, 2),
      want: 'owner-key-signature',
    },
    {
      name: 'evidence that names one listed key and is signed with another',
      given: async () => {
        const foreign = await new OwnerKeyIssuer({ privKey: new Secret(other) }).issue(binding, never);
        return Buffer.concat([evidence.subarray(0, 33), foreign.subarray(33)]);
      },
      want: 'owner-key-signature',
    },
    {
      name: 'a signature over the binding without its label',
      given: async () => Buffer.concat([evidence.subarray(0, 33), sign(null, binding, owner)]),
      want: 'owner-key-signature',
    },
    { name: 'empty evidence', given: async () => new Uint8Array(0), want: 'owner-key-malformed' },
    {
      name: 'truncated evidence',
      given: async () => evidence.subarray(0, 96),
      want: 'owner-key-malformed',
    },
    {
      name: 'evidence with a trailing byte',
      given: async () => Buffer.concat([evidence, Buffer.alloc(1)]),
      want: 'owner-key-malformed',
    },
    {
      name: 'evidence of another version',
      given: async () => Buffer.concat([Uint8Array.of(2), evidence.subarray(1)]),
      want: 'owner-key-malformed',
    },
    {
      name: 'an empty binding',
      given: async () => evidence,
      binding: new Uint8Array(0),
      want: 'attestation-binding-length',
    },
  ];
  test.each(cases)('refuses $name: error $want', async ({ given, want, binding: other = binding }) => {
    await expect(validator.validate(await given(), other, context)).rejects.toMatchObject({ code: want });
  });

  test('refuses evidence with any bit flipped', async () => {
    for (let bit = 0; bit < evidence.length * 8; bit++) {
      const mutated = Buffer.from(evidence);
      mutated[bit >> 3]! ^= 1 << (bit & 7);
      await expect(validator.validate(mutated, binding, context)).rejects.toBeInstanceOf(OwnerKeyError);
    }
  });

  test('refuses the malleable form of a signature (s + L)', async () => {
    const s = BigInt(`0x${Buffer.from(evidence.subarray(65)).reverse().toString('hex')}`);
    const twin = Buffer.from((s + GROUP_ORDER).toString(16).padStart(64, '0'), 'hex').reverse();
    const malleated = Buffer.concat([evidence.subarray(0, 65), twin]);
    await expect(validator.validate(malleated, binding, context)).rejects.toMatchObject({
      code: 'owner-key-signature',
    });
  });

  test('refuses arbitrary bytes with an error code', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 120 }), async (bytes) => {
        await expect(validator.validate(bytes, binding, context)).rejects.toBeInstanceOf(OwnerKeyError);
      }),
    );
  });
});

test('parseOwnerKeyEvidence() either parses arbitrary bytes or refuses them with its error code', () => {
  const { cases, refused } = fuzz({
    seeds: [evidence],
    parse: parseOwnerKeyEvidence,
    codes: ['owner-key-malformed'],
  });
  expect(cases).toBeGreaterThan(0);
  expect(refused).toBeGreaterThan(0);
}, 1_800_000);

describe('owner keys in the configuration', () => {
  test('OwnerKeyValidator refuses an empty list of owner keys', () => {
    expect(() => new OwnerKeyValidator({ ownerKeys: [] })).toThrow(invalid);
  });

  test.each([0, 31, 33])('OwnerKeyValidator refuses a key of %d bytes', (sizeBytes) => {
    expect(() => new OwnerKeyValidator({ ownerKeys: [Buffer.alloc(sizeBytes, 3)] })).toThrow(invalid);
  });

  test('OwnerKeyValidator refuses small-order keys, with which anybody can forge signatures', () => {
    const small = smallOrderKeys();
    expect(small).toHaveLength(14);
    for (const raw of small) expect(() => ownerPubKeyFromRaw(raw)).toThrow(invalid);
  });

  test('OwnerKeyIssuer refuses a key that is not Ed25519', () => {
    const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    expect(() => new OwnerKeyIssuer({ privKey: new Secret(p256) })).toThrow(invalid);
    expect(() => rawFromOwnerKey(undefined as unknown as KeyObject)).toThrow();
  });

  test('ownerPubKeyFromRaw() and rawFromOwnerKey() convert back and forth', () => {
    expect(ownerPubKeyFromRaw(rawFromOwnerKey(owner)).equals(createPublicKey(owner))).toBe(true);
  });
});

const invalid = expect.objectContaining({ code: 'owner-key-invalid' });

/** RFC 8032 §5.1. */
const P = 2n ** 255n - 19n;
const GROUP_ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

/** Every 32-byte encoding of a point of order 1, 2, 4 or 8, computed rather than copied. */
function smallOrderKeys(): Uint8Array[] {
  const d = mod(-121665n * inverse(121666n));
  const ys = new Set([0n, 1n, P - 1n]);
  // y of the points of order 8: those whose double has y = 0, i.e. d·y⁴ + 2·y² − 1 = 0.
  for (const root of [squareRoot(mod(1n + d)), mod(-(squareRoot(mod(1n + d)) ?? 0n))]) {
    const ySquared = mod(((root ?? 0n) - 1n) * inverse(d));
    const y = squareRoot(ySquared);
    if (y !== undefined) ys.add(y).add(P - y);
  }
  const encodings = [...ys].flatMap((y) => [y, y + P].filter((each) => each < 2n ** 255n));
  return encodings.flatMap((y) => [y, y + 2n ** 255n]).map(littleEndian);
}

function mod(value: bigint): bigint {
  return ((value % P) + P) % P;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let b = mod(base), e = exponent; e > 0n; e >>= 1n, b = mod(b * b))
    if (e & 1n) result = mod(result * b);
  return result;
}

function inverse(value: bigint): bigint {
  return power(value, P - 2n);
}

function squareRoot(value: bigint): bigint | undefined {
  const candidate = power(value, (P + 3n) / 8n);
  const roots = [candidate, mod(candidate * power(2n, (P - 1n) / 4n))];
  return roots.find((root) => mod(root * root) === mod(value));
}

function littleEndian(value: bigint): Uint8Array {
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse();
}
