import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, X509Certificate } from 'node:crypto';
import { trustedPem, encodeKeySet, signingPair, createPairs, parseKeySet, type KeySet } from './key-set.ts';
import { hasReached, KEY_PHASES, ROTATING_KEYS, formatStage, type KeyPhase } from './phases.ts';

const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
let set: KeySet;

beforeAll(async () => {
  const [previous, next] = [await createPairs(2, NOW_MS), await createPairs(3, NOW_MS)];
  set = { generation: 3, phase: 'distribute', previous, next };
});

const at = (phase: KeyPhase): KeySet => ({ ...set, phase });

test.each([
  { phase: 'distribute', trusts: ['previous'], signs: 'previous' },
  { phase: 'trust', trusts: ['previous', 'next'], signs: 'previous' },
  { phase: 'issue', trusts: ['previous', 'next'], signs: 'next' },
  { phase: 'refresh', trusts: ['previous', 'next'], signs: 'next' },
  { phase: 'retire', trusts: ['next'], signs: 'next' },
  { phase: 'done', trusts: ['next'], signs: 'next' },
] as const)('in phase $phase, $trusts keys are trusted and $signs keys sign', ({ phase, trusts, signs }) => {
  for (const name of ROTATING_KEYS) {
    expect(trustedPem(at(phase), name)).toBe(trusts.map((which) => set[which][name].public).join(''));
    expect(signingPair(at(phase), name)).toBe(set[signs][name]);
  }
});

test('nodes in neighboring phases trust the credentials of each other', () => {
  for (const [index, phase] of KEY_PHASES.slice(0, -1).entries()) {
    const later = KEY_PHASES[index + 1] ?? phase;
    for (const name of ROTATING_KEYS) {
      expect(trustedPem(at(phase), name)).toContain(signingPair(at(later), name).public);
      expect(trustedPem(at(later), name)).toContain(signingPair(at(phase), name).public);
    }
  }
});

test('createPairs() creates CAs with distinct names and a key pair for service-account tokens', () => {
  expect(new X509Certificate(set.next['etcd-peers-ca'].public).subject).toBe('CN=etcd peers 3');
  expect(new X509Certificate(set.next['kubernetes-clients-ca'].public).ca).toBe(true);
  expect(createPublicKey(set.next['service-account'].public).asymmetricKeyType).toBe('ec');
});

describe('parseKeySet()', () => {
  test('returns what encodeKeySet() encoded', () => {
    const text = encodeKeySet(set).reveal();
    expect(encodeKeySet(parseKeySet('x', text)).reveal()).toBe(text);
  });

  const mutate = (change: (read: Record<string, unknown>) => unknown): string =>
    JSON.stringify(change(JSON.parse(encodeKeySet(set).reveal()) as Record<string, unknown>));
  test.each([
    { name: 'an empty file', given: () => '' },
    { name: 'a truncated file', given: () => encodeKeySet(set).reveal().slice(0, 900) },
    { name: 'a newer version', given: () => mutate((read) => ({ ...read, version: 2 })) },
    { name: 'an unknown phase', given: () => mutate((read) => ({ ...read, phase: 'rest' })) },
    { name: 'an unknown field', given: () => mutate((read) => ({ ...read, more: 1 })) },
    { name: 'a file without the next keys', given: () => mutate(({ next: _, ...read }) => read) },
    {
      name: 'a file of generation 1 with previous keys',
      given: () => mutate((read) => ({ ...read, generation: 1 })),
    },
    {
      name: 'a certificate with the private key of another pair',
      given: () =>
        mutate((read) => {
          const next = read['next'] as Record<string, object>;
          const mixed = { ...next['etcd-peers-ca'], private: set.previous['etcd-peers-ca'].private.reveal() };
          return { ...read, next: { ...next, 'etcd-peers-ca': mixed } };
        }),
    },
  ])('refuses $name, without private keys in the error', ({ given }) => {
    const text = given();
    const refused = expect(() => parseKeySet('/keys', text));
    refused.toThrow(expect.objectContaining({ code: 'keyset-invalid' }));
    refused.not.toThrow(/BEGIN|JSON/);
  });
});

test.each([
  { now: undefined, wanted: '2/distribute', want: false },
  { now: '2/distribute', wanted: '2/distribute', want: true },
  { now: '2/issue', wanted: '2/trust', want: true },
  { now: '2/trust', wanted: '2/issue', want: false },
  { now: '3/distribute', wanted: '2/done', want: true },
  { now: '2/done', wanted: '3/distribute', want: false },
])('hasReached() returns $want for stage $now and wanted stage $wanted', ({ now, wanted, want }) => {
  const stage = (text: string) => {
    const [generation, phase] = text.split('/');
    const read = { generation: Number(generation), phase: phase as KeyPhase };
    expect(formatStage(read)).toBe(text);
    return read;
  };
  expect(hasReached(now === undefined ? undefined : stage(now), stage(wanted))).toBe(want);
});
