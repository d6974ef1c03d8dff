import { beforeAll, expect, test } from '@jest/globals';
import { createPairs } from './key-set.ts';
import { ROTATING_KEYS } from './phases.ts';
import {
  areSignedClientCas,
  areSignedKeys,
  newKeysStatement,
  publicKeysOf,
  signedKeysOf,
  type PublicKeys,
} from './signed-keys.ts';

let keys: PublicKeys;
let foreign: PublicKeys;
beforeAll(async () => {
  const [previous, next, other] = [await createPairs(1, 1), await createPairs(2, 1), await createPairs(2, 1)];
  keys = publicKeysOf({ generation: 2, phase: 'distribute', previous, next });
  foreign = publicKeysOf({ generation: 2, phase: 'distribute', previous: other, next: other });
});

test('areSignedKeys() accepts exactly the keys that were signed', () => {
  expect(areSignedKeys(signedKeysOf(keys), keys)).toBe(true);
  expect(areSignedKeys(signedKeysOf(keys), { ...keys, generation: 3 })).toBe(false);
  for (const part of ['previous', 'next'] as const)
    for (const name of ROTATING_KEYS) {
      const changed = { ...keys, [part]: { ...keys[part], [name]: foreign[part][name] } };
      expect(areSignedKeys(signedKeysOf(keys), changed)).toBe(false);
    }
});

test('areSignedKeys() refuses a document that lacks a key, or names a key that this version does not know', () => {
  const signed = signedKeysOf(keys);
  const { 'etcd-peers-ca': _, ...others } = signed.next;
  expect(areSignedKeys({ ...signed, next: others }, keys)).toBe(false);
  expect(areSignedKeys({ ...signed, next: { ...signed.next, 'other-ca': '0'.repeat(64) } }, keys)).toBe(
    false,
  );
});

test('areSignedKeys() refuses a certificate that is appended to a signed one', () => {
  const name = 'kubernetes-clients-ca';
  const both = `${keys.next[name]}${foreign.next[name]}`;
  expect(areSignedKeys(signedKeysOf(keys), { ...keys, next: { ...keys.next, [name]: both } })).toBe(false);
});

test('areSignedClientCas() accepts the client CAs of both generations and no other certificate', () => {
  const name = 'kubernetes-clients-ca';
  const signed = signedKeysOf(keys);
  const [previous, next, other] = [keys.previous[name], keys.next[name], foreign.next[name]];
  for (const bundle of [previous, next, `${previous}\n${next}`, next.trim()])
    expect(areSignedClientCas(signed, bundle)).toBe(true);
  for (const bundle of [
    '',
    other,
    `${next}\n${other}`,
    `${other}${next}`,
    `text\n${next}`,
    keys.next['etcd-peers-ca'],
  ])
    expect(areSignedClientCas(signed, bundle)).toBe(false);
});

test('newKeysStatement() differs for each cluster and for each set of keys', () => {
  const signed = signedKeysOf(keys);
  const statements = [
    newKeysStatement('a', signed),
    newKeysStatement('b', signed),
    newKeysStatement('a', { ...signed, generation: 3 }),
    newKeysStatement('a', { ...signed, previous: signed.next, next: signed.previous }),
  ].map((bytes) => Buffer.from(bytes).toString('hex'));
  expect(new Set(statements).size).toBe(statements.length);
});
