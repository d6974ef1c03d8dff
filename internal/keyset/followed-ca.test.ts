import { expect, test } from '@jest/globals';
import { followedClusterCas, type KnownClusterCa } from './followed-ca.ts';
import { digestOf, type SignedKeys } from './signed-keys.ts';

const pemOf = (text: string): string => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;
const [FIRST, SECOND, THIRD, OTHER] = ['1', '2', '3', 'X'].map(pemOf) as [string, string, string, string];

function signedFrom(generation: number, previous: string, next: string): SignedKeys {
  const named = (pem: string) => ({ 'cluster-ca': digestOf(pem) });
  return { generation, previous: named(previous), next: named(next) };
}

const second = signedFrom(2, FIRST, SECOND);
const third = signedFrom(3, SECOND, THIRD);
const unknown = { trustedPem: undefined, generation: 1 };

const cases: readonly {
  readonly name: string;
  readonly shown: readonly string[];
  readonly signed?: SignedKeys;
  readonly known?: KnownClusterCa;
  readonly want: readonly (readonly [string, number])[];
}[] = [
  { name: 'the CA that replaces the known CA', shown: [SECOND], want: [[SECOND, 2]] },
  {
    name: 'the old and the new CA to a machine that knows no CA, because the rotation may still be running',
    shown: [FIRST, SECOND],
    want: [
      [FIRST, 1],
      [SECOND, 2],
    ],
  },
  { name: "no CA that the owner's signature does not name", shown: [OTHER, SECOND], want: [[SECOND, 2]] },
  {
    name: 'no CA if the bundle has only the first CA and the caller knows the second CA already',
    shown: [FIRST],
    known: { trustedPem: SECOND, generation: 1 },
    want: [],
  },
  {
    name: 'only the new CA to a machine that knows the current generation and no CA',
    shown: [FIRST, SECOND],
    known: { trustedPem: undefined, generation: 2 },
    want: [[SECOND, 2]],
  },
  {
    name: 'no CA if the caller knows a newer generation than the signed one',
    shown: [FIRST, SECOND],
    known: { trustedPem: undefined, generation: 3 },
    want: [],
  },
  {
    name: 'the second CA to a workspace that knows only the first CA, while the third CA replaces the second',
    shown: [SECOND],
    signed: third,
    known: { trustedPem: FIRST, generation: 1 },
    want: [[SECOND, 2]],
  },
  {
    name: "no CA if the owner's signature is about a rotation that does not replace the cluster CA",
    shown: [FIRST, SECOND],
    signed: { generation: 2, previous: {}, next: {} },
    want: [],
  },
  { name: 'nothing in an empty bundle', shown: [], want: [] },
];
test.each(cases)(
  'followedClusterCas() returns $name',
  ({ shown, signed = second, known = unknown, want }) => {
    const found = followedClusterCas(shown.join(''), signed, known);
    expect(found).toEqual(want.map(([pem, generation]) => ({ pem, generation })));
  },
);
