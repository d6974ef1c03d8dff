import { expect, test } from '@jest/globals';
import { certificatesIn } from '../pki/index.ts';
import { createClusterCa, signingClusterCa, trustedClusterCas } from './cluster-ca.ts';
import { CLUSTER_CA } from './followed-ca.ts';
import { createPairs, encodeKeySet, parseKeySet, publicHalvesOf, type KeySet } from './key-set.ts';
import { KEY_PHASES, type KeyPhase } from './phases.ts';

const [previous, next] = [await createClusterCa(1, 1), await createClusterCa(2, 1)];
const pairs = await createPairs(2, 1);
const at = (phase: KeyPhase): KeySet => ({
  ...{ generation: 2, phase },
  previous: { ...pairs, [CLUSTER_CA]: previous },
  next: { ...pairs, [CLUSTER_CA]: next },
});

test.each([
  { phase: 'distribute', trusted: undefined, signs: previous },
  { phase: 'trust', trusted: [previous, next], signs: previous },
  { phase: 'issue', trusted: [previous, next], signs: next },
  { phase: 'refresh', trusted: [previous, next], signs: next },
  { phase: 'retire', trusted: [next], signs: next },
  { phase: 'done', trusted: [next], signs: next },
] as const)(
  'in phase $phase, members trust the signing CA even if they are still in the previous phase',
  ({ phase, trusted, signs }) => {
    const set = at(phase);
    const cas = trustedClusterCas(phase, publicHalvesOf(set));
    expect(cas && certificatesIn(cas)).toEqual(trusted?.map((pair) => pair.public));
    expect(signingClusterCa(set)).toBe(signs);
    const before = KEY_PHASES[KEY_PHASES.indexOf(phase) - 1] ?? 'distribute';
    const behind = trustedClusterCas(before, publicHalvesOf(at(before))) ?? previous.public;
    expect(behind).toContain(signs.public);
  },
);

test('a key rotation that an earlier version started has no cluster CA', () => {
  const set: KeySet = { generation: 2, phase: 'done', previous: pairs, next: pairs };
  expect(trustedClusterCas('done', publicHalvesOf(set))).toBeUndefined();
  expect(signingClusterCa(set)).toBeUndefined();
});

test('parseKeySet() returns the cluster CAs that encodeKeySet() wrote, and refuses a file with a cluster CA in only one of the two generations', () => {
  const read = parseKeySet('x', encodeKeySet(at('issue')).reveal());
  expect([read.previous[CLUSTER_CA], read.next[CLUSTER_CA]]).toEqual([previous, next]);
  const half = encodeKeySet({ ...at('issue'), previous: pairs }).reveal();
  expect(() => parseKeySet('x', half)).toThrow(expect.objectContaining({ code: 'keyset-invalid' }));
});
