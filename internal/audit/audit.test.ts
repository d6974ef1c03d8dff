import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ed25519PubKeyFrom, generateEd25519Key } from '../crypto/index.ts';
import { ChainVerifier, EMPTY_CHAIN, extendChain, type AuditFacts, type ChainHead } from './chain.ts';
import { parseCheckpoint, signCheckpoint, type Checkpoint } from './checkpoint.ts';

const coded = (code: string): unknown => expect.objectContaining({ code });
const facts = (subject: string): AuditFacts => ({
  timeMs: 1,
  caller: 'operator:o',
  method: 'DecideJoin',
  subject,
  detail: { verdict: 'yes' },
});

function chainOf(subjects: readonly string[]): { readonly entries: Uint8Array[]; readonly head: ChainHead } {
  let head = EMPTY_CHAIN;
  const entries = subjects.map((subject) => {
    const next = extendChain(head, facts(subject));
    head = next.head;
    return next.record;
  });
  return { entries, head };
}

function follow(entries: readonly Uint8Array[], from?: ChainHead): ChainVerifier {
  const verifier = new ChainVerifier(from);
  for (const entry of entries) verifier.next(entry);
  return verifier;
}

describe('ChainVerifier', () => {
  test('ChainVerifier verifies a chain up to its head, from the first entry and from any other entry', () => {
    const { entries, head } = chainOf(['a', 'b', 'c']);
    follow(entries).verifyHead(head);
    const middle = follow(entries.slice(0, 2)).head;
    follow(entries.slice(2), middle).verifyHead(head);
    follow([]).verifyHead(EMPTY_CHAIN);
  });

  test('ChainVerifier detects every changed byte, missing entry and swapped pair of entries', () => {
    const { entries, head } = chainOf(['a', 'b', 'c', 'd']);
    const isBroken = (altered: readonly Uint8Array[]): boolean => {
      try {
        follow(altered).verifyHead(head);
        return false;
      } catch {
        return true;
      }
    };
    fc.assert(
      fc.property(fc.nat(3), fc.nat(), fc.integer({ min: 1, max: 255 }), (which, where, by) => {
        const altered = entries.map((entry) => Uint8Array.from(entry));
        const entry = altered[which] ?? new Uint8Array();
        entry[where % entry.length] = (entry[where % entry.length] ?? 0) ^ by;
        return isBroken(altered);
      }),
    );
    for (let i = 0; i < entries.length; i++) expect(isBroken(entries.toSpliced(i, 1))).toBe(true);
    const [a, b, c, d] = entries as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
    expect(isBroken([b, a, c, d])).toBe(true);
    expect(isBroken([a, b, c, d, d])).toBe(true);
  });

  test('ChainVerifier detects a chain that is shorter than the head that the cluster reports', () => {
    const { entries, head } = chainOf(['a', 'b']);
    expect(() => follow(entries.slice(0, 1)).verifyHead(head)).toThrow(coded('audit-chain-broken'));
    const other = chainOf(['a', 'x']);
    expect(() => follow(other.entries).verifyHead(head)).toThrow(coded('audit-chain-broken'));
  });
});

describe('parseCheckpoint()', () => {
  const keyPem = generateEd25519Key();
  const pubKey = ed25519PubKeyFrom(keyPem) ?? new Uint8Array();
  const { head } = chainOf(['a']);
  const good = signCheckpoint({ ...head, clusterId: 'c1', epoch: 1, timeMs: 5 }, { keyPem, pubKey });
  const expected = { clusterId: 'c1', ownerPubKeys: [pubKey] };
  const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

  test('parseCheckpoint() reads the output of signCheckpoint()', () => {
    expect(parseCheckpoint(bytesOf(good), expected)).toEqual(good);
  });

  const otherKey = generateEd25519Key();
  const cases: readonly { readonly name: string; readonly given: unknown }[] = [
    { name: 'another sequence number', given: { ...good, seq: 2 } },
    { name: 'another hash', given: { ...good, hash: '0'.repeat(64) } },
    { name: 'another time', given: { ...good, timeMs: 6 } },
    { name: 'another epoch', given: { ...good, epoch: 2 } },
    { name: 'another cluster', given: { ...good, clusterId: 'c2' } },
    { name: 'an additional field', given: { ...good, more: 1 } },
    { name: 'no content', given: undefined },
    {
      name: 'a key that belongs to no owner',
      given: signCheckpoint(
        { ...head, clusterId: 'c1', epoch: 1, timeMs: 5 },
        { keyPem: otherKey, pubKey: ed25519PubKeyFrom(otherKey) ?? new Uint8Array() },
      ) satisfies Checkpoint,
    },
    {
      name: "an owner's name and the signature of somebody else",
      given: signCheckpoint({ ...head, clusterId: 'c1', epoch: 1, timeMs: 5 }, { keyPem: otherKey, pubKey }),
    },
    { name: 'too many bytes', given: { ...good, clusterId: 'c'.repeat(5000) } },
  ];
  test.each(cases)('refuses a checkpoint with $name', ({ given }) => {
    expect(() => parseCheckpoint(bytesOf(given) ?? new Uint8Array(), expected)).toThrow(
      coded('audit-checkpoint-invalid'),
    );
  });
});
