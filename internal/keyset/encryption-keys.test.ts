import { beforeAll, describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import {
  createEncryptionKey,
  currentEncryption,
  encryptionKeyFrom,
  encryptionKeysIn,
  withoutReplacedSecrets,
  type EncryptionKeys,
} from './encryption-keys.ts';
import { createPairs, encodeKeySet, parseKeySet, type KeySet } from './key-set.ts';
import { KEY_PHASES } from './phases.ts';
import { areSignedKeys, publicKeysOf, signedKeysOf } from './signed-keys.ts';

const keys: EncryptionKeys = {
  resources: ['secrets', 'configmaps'],
  previous: encryptionKeyFrom('key1', new Secret(Buffer.alloc(32, 7).toString('base64'))),
  next: createEncryptionKey(2),
  older: [],
};
const older = createEncryptionKey(1);
let set: KeySet;
beforeAll(async () => {
  const [previous, next] = [await createPairs(1, 1), await createPairs(2, 1)];
  set = { generation: 2, phase: 'issue', previous, next, encryption: keys };
});

test.each([
  { phase: 'distribute', want: ['previous'] },
  { phase: 'trust', want: ['previous', 'next'] },
  { phase: 'issue', want: ['next', 'previous'] },
  { phase: 'refresh', want: ['next', 'previous'] },
  { phase: 'retire', want: ['next'] },
  { phase: 'done', want: ['next'] },
] as const)(
  'in phase $phase API servers have the encryption keys $want, the first one encrypts',
  ({ phase, want }) => {
    expect(encryptionKeysIn(phase, keys)).toEqual(want.map((which) => keys[which]));
  },
);

test("two API servers in neighboring phases decrypt each other's objects", () => {
  for (const [index, phase] of KEY_PHASES.slice(0, -1).entries()) {
    const [now, later] = [phase, KEY_PHASES[index + 1] ?? phase].map((at) => encryptionKeysIn(at, keys));
    // The first key of each list encrypts, so the list of the neighboring phase must contain it.
    expect([later?.includes(now?.[0] ?? older), now?.includes(later?.[0] ?? older)]).toEqual([true, true]);
  }
});

test('a rotation that replaces an unfinished rotation keeps every key with which an object may still be encrypted', () => {
  const at = (phase: KeySet['phase']) => currentEncryption(phase, { ...keys, older: [older] });
  const { resources, previous, next } = keys;
  expect(at('trust')).toEqual({ resources, key: previous, older: [next, older] });
  expect(at('refresh')).toEqual({ resources, key: next, older: [previous, older] });
  for (const phase of ['retire', 'done'] as const)
    expect(at(phase)).toEqual({ resources, key: next, older: [] });
  const again = { ...keys, previous: next, next: createEncryptionKey(3), older: [previous, older] };
  expect(encryptionKeysIn('trust', again)).toEqual([next, again.next, previous, older]);
  expect(encryptionKeysIn('issue', again)).toEqual([again.next, next, previous, older]);
  expect(encryptionKeysIn('retire', again)).toEqual([again.next]);
});

test('API servers have only the next encryption key, in every phase, once the secret of the previous key is deleted', () => {
  const end = withoutReplacedSecrets({ ...keys, older: [older] });
  expect([end.previous, end.older]).toEqual([{ ...keys.previous, secret: undefined }, []]);
  for (const phase of KEY_PHASES) expect(encryptionKeysIn(phase, end)).toEqual([keys.next]);
});

test("the key set file preserves the encryption keys, and an owner's signature on them stays valid when the previous secret is deleted", () => {
  const text = encodeKeySet(set).reveal();
  expect(encodeKeySet(parseKeySet('x', text)).reveal()).toBe(text);
  const end = parseKeySet('x', encodeKeySet({ ...set, encryption: withoutReplacedSecrets(keys) }).reveal());
  expect(end.encryption?.previous.secret).toBeUndefined();
  expect(areSignedKeys(signedKeysOf(publicKeysOf(set)), publicKeysOf(end))).toBe(true);
});

test("an owner's signature covers both encryption keys, and neither the signed text nor the record contains their secrets", () => {
  const signed = signedKeysOf(publicKeysOf(set));
  for (const which of ['previous', 'next'] as const) {
    const changed = { ...set, encryption: { ...keys, [which]: older } };
    expect(areSignedKeys(signed, publicKeysOf(changed))).toBe(false);
  }
  expect(areSignedKeys(signed, publicKeysOf({ ...set, encryption: undefined }))).toBe(false);
  const text = JSON.stringify([signed, publicKeysOf(set)]);
  for (const { secret } of [keys.previous, keys.next]) expect(text).not.toContain(secret?.reveal());
});

describe('parseKeySet() refuses', () => {
  type Plain = { encryption: { previous: object; next: object; resources: string[] } };
  const mutate = (change: (of: Plain['encryption']) => object): string => {
    const plain = JSON.parse(encodeKeySet(set).reveal()) as Plain;
    return JSON.stringify({ ...plain, encryption: change(plain.encryption) });
  };
  test.each([
    {
      name: 'an encryption key with the hash of another encryption key',
      given: () => mutate((of) => ({ ...of, next: { ...of.next, secret: older.secret?.reveal() } })),
    },
    {
      name: 'an encryption key of 31 bytes',
      given: () =>
        mutate((of) => ({ ...of, next: { ...of.next, secret: Buffer.alloc(31).toString('base64') } })),
    },
    {
      name: 'a next encryption key without its secret',
      given: () => mutate((of) => ({ ...of, next: { name: keys.next.name, id: keys.next.id } })),
    },
    {
      name: 'an encryption key whose name contains a colon, which ends the name in the prefix of encrypted values',
      given: () => mutate((of) => ({ ...of, previous: { ...of.previous, name: 'key1:x' } })),
    },
    {
      name: 'the encryption of a resource that this version does not know',
      given: () => mutate((of) => ({ ...of, resources: ['pods'] })),
    },
  ])('$name, without the secret in the error', ({ given }) => {
    const text = given();
    const refused = expect(() => parseKeySet('/keys', text));
    refused.toThrow(expect.objectContaining({ code: 'keyset-invalid' }));
    refused.not.toThrow(new RegExp(String(keys.next.secret?.reveal()).replaceAll(/[+/=]/g, '.')));
  });
});
