import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { createCaCertPem, generateKeyPem, isCrossCertificate } from '../pki/index.ts';
import { createPairs, encodeKeySet, parseKeySet, type KeySet, type RotatingPair } from './key-set.ts';
import { KEY_PHASES, type KeyPhase } from './phases.ts';
import { createServersCa, kubeletTrustPem, SERVERS_CA, serversTrustPem } from './servers-ca.ts';
import { areSignedServerCas, publicKeysOf, signedKeysOf } from './signed-keys.ts';

const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
const createFirst = async (pathLength: 0 | 1): Promise<RotatingPair> => {
  const key = generateKeyPem();
  const ca = { commonName: 'kubernetes', keyPem: key, nowMs: NOW_MS, pathLength };
  return { public: await createCaCertPem(ca), private: key };
};
const first = await createFirst(1);
const second = await createServersCa(2, NOW_MS, first);
const third = await createServersCa(3, NOW_MS, second);
const cas = { previous: first.public, next: second.public };

test('createServersCa() creates a CA with a new name and a new key, and a cross-certificate that the replaced CA has signed', () => {
  expect(new X509Certificate(second.public).subject).toBe('CN=kubernetes 2');
  for (const [previous, next] of [
    [first, second],
    [second, third],
  ] as const)
    expect(isCrossCertificate(next.cross ?? '', { previousPem: previous.public, nextPem: next.public })).toBe(
      true,
    );
});

test('createServersCa() keeps the key of a CA that may not sign a cross-certificate, and issues it a certificate that permits this in the next rotation', async () => {
  const old = await createFirst(0);
  const kept = await createServersCa(2, NOW_MS, old);
  const [before, after] = [new X509Certificate(old.public), new X509Certificate(kept.public)];
  expect([after.subject, after.publicKey.equals(before.publicKey), kept.cross]).toEqual([
    before.subject,
    true,
    undefined,
  ]);
  const replaced = await createServersCa(3, NOW_MS, kept);
  expect([replaced.cross === undefined, replaced.private.reveal() === old.private.reveal()]).toEqual([
    false,
    false,
  ]);
});

const trusts: Readonly<Record<KeyPhase, string>> = {
  distribute: cas.previous,
  trust: cas.previous,
  issue: `${cas.previous}${cas.next}`,
  refresh: `${cas.previous}${cas.next}`,
  retire: cas.next,
  done: cas.next,
};
test.each(KEY_PHASES)(
  'in phase %s, clients and kubelets trust the CAs that sign the certificates of servers',
  (phase) => {
    expect(serversTrustPem(phase, cas)).toBe(trusts[phase]);
    expect(kubeletTrustPem(phase, cas)).toBe(phase === 'refresh' ? cas.next : trusts[phase]);
  },
);

describe('a key set with the CA of servers', () => {
  const setOf = async (): Promise<KeySet> => ({
    ...{ generation: 2, phase: 'distribute' },
    previous: { ...(await createPairs(1, NOW_MS)), [SERVERS_CA]: first },
    next: { ...(await createPairs(2, NOW_MS)), [SERVERS_CA]: second },
  });

  test('is the same after it was encoded and parsed', async () => {
    const text = encodeKeySet(await setOf()).reveal();
    const read = parseKeySet('x', text);
    expect([encodeKeySet(read).reveal(), read.next[SERVERS_CA]?.cross]).toEqual([text, second.cross]);
  });

  test.each([
    {
      name: 'that contains this CA in only one generation',
      change: ({ previous: { [SERVERS_CA]: _, ...others } }: KeySet) => others,
    },
    {
      name: 'with a cross-certificate for other CAs',
      change: (set: KeySet) => ({ ...set.previous, [SERVERS_CA]: third }),
    },
  ])('is refused as a key set $name', async ({ change }) => {
    const set = await setOf();
    const text = encodeKeySet({ ...set, previous: change(set) }).reveal();
    expect(() => parseKeySet('x', text)).toThrow(expect.objectContaining({ code: 'keyset-invalid' }));
  });

  test("is covered by an owner's signature: areSignedServerCas() accepts its CAs and no other CA", async () => {
    const set = await setOf();
    const signed = signedKeysOf(publicKeysOf(set));
    for (const bundle of Object.values(trusts)) expect(areSignedServerCas(signed, bundle)).toBe(true);
    for (const bundle of [third.public, `${cas.next}${third.public}`, second.cross ?? '', ''])
      expect(areSignedServerCas(signed, bundle)).toBe(false);
    const earlier = { ...set, previous: await createPairs(1, 1), next: await createPairs(2, 1) };
    expect(areSignedServerCas(signedKeysOf(publicKeysOf(earlier)), cas.next)).toBeUndefined();
  });
});
