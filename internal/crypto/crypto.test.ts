import { describe, expect, test } from '@jest/globals';
import { createPublicKey, verify } from 'node:crypto';
import { generateKeyPem } from '../pki/index.ts';
import { Secret } from '../secret/index.ts';
import {
  deriveKey,
  ed25519PubKeyFrom,
  generateEd25519Key,
  ownershipStatement,
  selfSignedCertificate,
  signEd25519,
  type KeyContext,
} from './index.ts';

const master = { key: new Secret(new Uint8Array(32).fill(1)), salt: new Uint8Array(32).fill(2) };
const hex = (key: Secret<Uint8Array>): string => Buffer.from(key.reveal()).toString('hex');

describe('deriveKey()', () => {
  const uuid = '00000000-0000-4000-8000-000000000000';

  test('derives a distinct and reproducible key for every context and length', () => {
    const contexts: readonly KeyContext[] = [
      { kind: 'cluster-id' },
      { kind: 'cluster-unlock' },
      { kind: 'measurement' },
      { kind: 'disk', uuid },
      { kind: 'disk', uuid: uuid.replace('4', '5') },
    ];
    const prefixes = contexts.flatMap((context) =>
      [16, 32, 64].map((size) => hex(deriveKey(master, context, size)).slice(0, 32)),
    );
    expect(new Set(prefixes).size).toBe(contexts.length * 3);
    expect(hex(deriveKey(master, { kind: 'cluster-id' }, 16))).toBe(prefixes[0]);
  });

  test('derives the same keys in every release, because they unlock existing disks', () => {
    expect(hex(deriveKey(master, { kind: 'cluster-unlock' }, 32))).toMatchInlineSnapshot(
      `"f8ad6533ed352a18a8f3232554e339196a66b50ea6d8a04274a105be730495e3"`,
    );
  });

  test('refuses a disk UUID that contains the name of another context', () => {
    expect(() => deriveKey(master, { kind: 'disk', uuid: '../cluster-id' }, 32)).toThrow(RangeError);
  });

  test('refuses a short master secret', () => {
    expect(() =>
      deriveKey({ ...master, key: new Secret(new Uint8Array(31)) }, { kind: 'cluster-id' }, 16),
    ).toThrow(RangeError);
  });
});

describe('ownershipStatement()', () => {
  test('covers cluster id, CA certificate and epoch', async () => {
    const keyPem = generateEd25519Key();
    const pem = async (): Promise<string> =>
      selfSignedCertificate({ keyPem: generateEd25519Key().reveal(), commonName: 'ca', nowMs: 0 });
    const cluster = { clusterId: 'ab', clusterCaPem: await pem(), epoch: 1n };
    const signature = signEd25519(keyPem, ownershipStatement(cluster));
    const pubKey = createPublicKey(keyPem.reveal());
    const holds = (other: typeof cluster): boolean =>
      verify(undefined, ownershipStatement(other), pubKey, signature);
    expect(holds(cluster)).toBe(true);
    expect(holds({ ...cluster, clusterId: 'abc' })).toBe(false);
    expect(holds({ ...cluster, clusterCaPem: await pem() })).toBe(false);
    expect(holds({ ...cluster, epoch: 2n })).toBe(false);
  });
});

test('ed25519PubKeyFrom() returns undefined for other kinds of keys and for malformed text', () => {
  expect(ed25519PubKeyFrom(generateEd25519Key())).toHaveLength(32);
  expect(ed25519PubKeyFrom(generateKeyPem())).toBeUndefined();
  expect(ed25519PubKeyFrom(new Secret('nonsense'))).toBeUndefined();
});
