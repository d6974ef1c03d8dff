import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createPrivateKey, sign } from 'node:crypto';
import { canonicalJson } from '../config/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { fuzz } from '../testing/fuzz.ts';
import {
  DOCUMENT_KINDS,
  MAX_OWNERS,
  subjectOf,
  type DocumentBodies,
  type DocumentKind,
} from './document-kinds.ts';
import { targets } from './owner-document.fuzz.ts';
import { MAX_DOCUMENT_BYTES, parseDocument, signDocument, type DocumentContent } from './owner-document.ts';
import { resolveOwners } from './owners.ts';
import { firstSerial, floorOf, verifyDocument, type ExpectedDocument } from './verify-document.ts';

const NOW = 1_700_000_000_000;
const CLUSTER = 'c1'.repeat(16);
const owner = generateEd25519Key();
const other = generateEd25519Key();
const rawOf = (keyPem: Secret<string>): Uint8Array => ed25519PubKeyFrom(keyPem) ?? new Uint8Array();
const base64Of = (keyPem: Secret<string>): string => Buffer.from(rawOf(keyPem)).toString('base64');
const coded = (code: string): unknown => expect.objectContaining({ code });

const bodies: DocumentBodies = {
  owners: { keys: [base64Of(owner), base64Of(other)] },
  settings: { settingsSha256: 'ab'.repeat(32) },
  keys: { generation: 2, previous: { 'etcd-peers-ca': 'ab'.repeat(32) }, next: {} },
  policy: { configurationSha256: 'ab'.repeat(32) },
  operators: { operators: [{ name: 'owner', fingerprint: `sha256:${'0'.repeat(64)}`, role: 'owner' }] },
  grant: {
    identity: `tpm-ek:${'1'.repeat(64)}`,
    nodeId: `node-${'2'.repeat(32)}`,
    fingerprint: `sha256:${'2'.repeat(64)}`,
    roles: ['ConsensusMember', 'KubernetesController'],
    floors: { owners: 1, policy: 3, operators: 0 },
  },
  readmission: { identity: `tpm-ek:${'1'.repeat(64)}`, removal: 1 },
};
const content = <K extends DocumentKind>(
  kind: K,
  body: DocumentBodies[K] = bodies[kind],
): DocumentContent<K> => ({
  ...{ kind, clusterId: CLUSTER, epoch: 2, serial: 7, issuedMs: NOW - 1000, endsMs: NOW + 1000, body },
});
const expected = <K extends DocumentKind>(kind: K): ExpectedDocument<K> => ({
  ...{
    kind,
    owners: [rawOf(other), rawOf(owner)],
    clusterId: CLUSTER,
    epoch: 2,
    floor: undefined,
    nowMs: NOW,
  },
});
const good = signDocument(content('policy'), owner);
const goodDigest = parseDocument(good).sha256;

describe('verifyDocument()', () => {
  test.each(DOCUMENT_KINDS.map((kind) => ({ kind })))(
    'returns the content of a document that an owner signed: $kind',
    ({ kind }) => {
      const verified = verifyDocument(signDocument(content(kind), owner), expected(kind));
      expect(verified).toMatchObject({ kind, serial: 7, epoch: 2, body: bodies[kind], signer: rawOf(owner) });
    },
  );

  test('accepts the same document again and documents with a higher serial', () => {
    const first = verifyDocument(good, expected('policy'));
    verifyDocument(good, { ...expected('policy'), floor: floorOf(first) });
    const next = signDocument({ ...content('policy'), serial: 8 }, owner);
    verifyDocument(next, { ...expected('policy'), floor: floorOf(first) });
    verifyDocument(good, { ...expected('policy'), floor: { serial: 7 } });
  });

  test('accepts an expired document only with acceptExpired', () => {
    const ended = signDocument({ ...content('policy'), endsMs: NOW }, owner);
    verifyDocument(ended, { ...expected('policy'), acceptExpired: true });
    expect(() => verifyDocument(ended, expected('policy'))).toThrow(coded('owner-document-expired'));
  });

  test('accepts a document of a later epoch', () => {
    verifyDocument(signDocument({ ...content('policy'), epoch: 3 }, owner), expected('policy'));
  });

  const twin = signDocument(content('policy', { configurationSha256: 'cd'.repeat(32) }), owner);
  const changed = good.with(-1 + good.length, (good.at(-1) ?? 0) ^ 1);
  const smallOrder = new Uint8Array(32);
  const cases: readonly {
    readonly name: string;
    readonly bytes?: Uint8Array;
    readonly expected?: Partial<ExpectedDocument<'policy'>>;
    readonly code: string;
  }[] = [
    {
      name: 'a document without a signature',
      bytes: good.with(-1 + good.length, 0).fill(0, -64),
      code: 'owner-document-signature-invalid',
    },
    { name: 'a document with a changed signature', bytes: changed, code: 'owner-document-signature-invalid' },
    {
      name: 'a document with changed content',
      bytes: swapped(good, '"serial":7', '"serial":8'),
      code: 'owner-document-signature-invalid',
    },
    {
      name: 'a document signed by one owner in the name of another',
      bytes: swapped(good, base64Of(owner), base64Of(other)),
      code: 'owner-document-signature-invalid',
    },
    {
      name: 'a document with a signature for another purpose of the owner key',
      bytes: resigned(good, (payload) => Buffer.concat([Buffer.from('cluster/reset/v1\0'), payload])),
      code: 'owner-document-signature-invalid',
    },
    {
      name: 'a document signed by a key that is not an owner key',
      bytes: signDocument(content('policy'), generateEd25519Key()),
      code: 'owner-document-signer-unknown',
    },
    {
      name: 'any document while no owner is known',
      expected: { owners: [] },
      code: 'owner-document-signer-unknown',
    },
    {
      name: 'a document signed by a small-order key, even if owners include the key',
      bytes: swapped(good, base64Of(owner), Buffer.from(smallOrder).toString('base64')),
      expected: { owners: [smallOrder] },
      code: 'owner-key-invalid',
    },
    {
      name: 'a document of another cluster',
      bytes: signDocument({ ...content('policy'), clusterId: 'd'.repeat(32) }, owner),
      code: 'owner-document-cluster-mismatch',
    },
    { name: 'a document of an older epoch', expected: { epoch: 3 }, code: 'owner-document-epoch-old' },
    {
      name: 'a document with a serial below the last accepted one',
      expected: { floor: { serial: 8 } },
      code: 'owner-document-serial-old',
    },
    {
      name: 'a document with the same serial as a different accepted document',
      bytes: twin,
      expected: { floor: { serial: 7, sha256: goodDigest } },
      code: 'owner-document-serial-conflict',
    },
    {
      name: 'a document signed before the verifier found an old copy of its disk',
      expected: { signedAfterMs: NOW - 999 },
      code: 'owner-document-before-rollback',
    },
    { name: 'a document after its expiry', expected: { nowMs: NOW + 1000 }, code: 'owner-document-expired' },
    {
      name: 'a document of another kind',
      bytes: signDocument(content('owners'), owner),
      code: 'owner-document-kind-mismatch',
    },
  ];
  test.each(cases)('refuses $name', ({ bytes, expected: change, code }) => {
    expect(() => verifyDocument(bytes ?? good, { ...expected('policy'), ...change })).toThrow(coded(code));
  });
});

describe('parseDocument() refuses', () => {
  const text = contentOf(good);
  const json = (change: Readonly<Record<string, unknown>>): Uint8Array =>
    enveloped(canonicalJson({ ...(JSON.parse(text) as object), ...change }));
  const withBody = (kind: DocumentKind, body: unknown): Uint8Array => json({ kind, body });
  const many = Array.from({ length: MAX_OWNERS + 1 }, () => base64Of(generateEd25519Key()));
  const cases: readonly { readonly name: string; readonly given: Uint8Array; readonly code?: string }[] = [
    { name: 'an empty input', given: new Uint8Array() },
    { name: 'a truncated length field', given: good.slice(0, 3) },
    { name: 'truncated content', given: good.slice(0, 40) },
    { name: 'a truncated signature', given: good.slice(0, -1) },
    { name: 'a content length that exceeds the input', given: good.with(0, 0xff) },
    { name: 'a trailing byte', given: Uint8Array.of(...good, 0), code: 'owner-document-trailing-bytes' },
    { name: 'a document above the size limit', given: new Uint8Array(MAX_DOCUMENT_BYTES + 1) },
    { name: 'content that is not JSON', given: enveloped('{') },
    { name: 'content that is not UTF-8', given: enveloped(Uint8Array.of(0xff)) },
    { name: 'content with a byte order mark', given: enveloped(`\ufeff${text}`) },
    { name: 'content with white space', given: enveloped(text.replace(',', ', ')) },
    { name: 'content with a duplicate key', given: enveloped(text.replace('{"body"', '{"body":{},"body"')) },
    {
      name: 'content with keys in another order',
      given: enveloped(text.replace(/^\{(.*),("version":1)\}$/, '{$2,$1}')),
    },
    { name: 'content with an unnecessary escape', given: enveloped(text.replace('policy', '\\u0070olicy')) },
    { name: 'content that is a list', given: enveloped('[]') },
    { name: 'content that is null', given: enveloped('null') },
    { name: 'content with deep nesting', given: enveloped('['.repeat(30_000)) },
    { name: 'another document version', given: json({ version: 2 }) },
    {
      name: 'an unknown document kind',
      given: json({ kind: 'gardener' }),
      code: 'owner-document-kind-unknown',
    },
    {
      name: 'a document kind named like a property of Object.prototype',
      given: json({ kind: 'constructor' }),
      code: 'owner-document-kind-unknown',
    },
    { name: 'an unknown field', given: json({ more: 1 }) },
    { name: 'a missing field', given: enveloped(text.replace(/"epoch":\d+,/, '')) },
    { name: 'a malformed cluster id', given: json({ clusterId: '../c' }) },
    { name: 'the serial 0', given: json({ serial: 0 }) },
    { name: 'a serial that is not an integer', given: json({ serial: 1.5 }) },
    {
      name: 'a serial above the largest exact integer',
      given: enveloped(text.replace('"serial":7', '"serial":1e21')),
    },
    { name: 'the epoch 0', given: json({ epoch: 0 }) },
    { name: 'an expiry before the time of issue', given: json({ endsMs: 1 }) },
    { name: 'a truncated signer key', given: json({ signer: base64Of(owner).slice(4) }) },
    { name: 'a signer key in non-canonical base64', given: json({ signer: `${base64Of(owner)}\n` }) },
    { name: 'the body of another document kind', given: withBody('grant', bodies.policy) },
    { name: 'a body with an unknown field', given: withBody('policy', { ...bodies.policy, more: 1 }) },
    { name: 'a hash in upper-case hex', given: withBody('policy', { configurationSha256: 'AB'.repeat(32) }) },
    { name: 'an empty list of owners', given: withBody('owners', { keys: [] }) },
    { name: 'a duplicate owner', given: withBody('owners', { keys: [base64Of(owner), base64Of(owner)] }) },
    { name: 'too many owners', given: withBody('owners', { keys: many }) },
    { name: 'an empty list of operators', given: withBody('operators', { operators: [] }) },
    {
      name: 'a duplicate operator',
      given: withBody('operators', {
        operators: [...bodies.operators.operators, ...bodies.operators.operators],
      }),
    },
    {
      name: 'an operator with an unknown role',
      given: withBody('operators', { operators: [{ ...bodies.operators.operators[0], role: 'root' }] }),
    },
    { name: 'a grant without roles', given: withBody('grant', { ...bodies.grant, roles: [] }) },
    {
      name: 'a grant with an unknown role',
      given: withBody('grant', { ...bodies.grant, roles: ['Gardener'] }),
    },
    {
      name: 'a grant whose node id contains a path',
      given: withBody('grant', { ...bodies.grant, nodeId: 'node-/../x' }),
    },
    {
      name: 'a grant without one of the floors',
      given: withBody('grant', { ...bodies.grant, floors: { owners: 1 } }),
    },
    {
      name: 'a readmission with a malformed machine id',
      given: withBody('readmission', { identity: 'x', removal: 1 }),
    },
    {
      name: 'a readmission of removal number 0',
      given: withBody('readmission', { ...bodies.readmission, removal: 0 }),
    },
  ];
  test.each(cases)('$name', ({ given, code }) => {
    expect(() => parseDocument(given)).toThrow(coded(code ?? 'owner-document-malformed'));
  });

  test('arbitrary input with an error code', () => {
    for (const target of targets) expect(fuzz(target).refused).toBeGreaterThan(0);
  });
});

test('signDocument() refuses content that parseDocument() would refuse, and other kinds of keys', () => {
  expect(() => signDocument({ ...content('policy'), serial: 0 }, owner)).toThrow(
    coded('owner-document-malformed'),
  );
});

test('verifyDocument() returns the content that signDocument() encoded and refuses any changed byte', () => {
  const key = fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .map((raw) => Buffer.from(raw).toString('base64'));
  const document = fc.record({
    keys: fc.uniqueArray(key, { minLength: 1, maxLength: MAX_OWNERS }),
    serial: fc.integer({ min: 1 }),
    epoch: fc.integer({ min: 2 }),
  });
  fc.assert(
    fc.property(
      document,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      ({ keys, serial, epoch }, where, by) => {
        const made = signDocument({ ...content('owners'), body: { keys }, serial, epoch }, owner);
        expect(verifyDocument(made, expected('owners'))).toMatchObject({ serial, epoch, body: { keys } });
        const at = where % made.length;
        expect(() => verifyDocument(made.with(at, (made[at] ?? 0) ^ by), expected('owners'))).toThrow(
          coded(expect.stringMatching(/^owner-document-/) as unknown as string),
        );
      },
    ),
    { numRuns: 60 },
  );
});

test('subjectOf() distinguishes documents that do not replace each other', () => {
  expect(DOCUMENT_KINDS.map((kind) => subjectOf({ body: bodies[kind] }))).toEqual([
    '',
    '',
    '',
    '',
    '',
    bodies.grant.nodeId,
    bodies.readmission.identity,
  ]);
});

describe('resolveOwners()', () => {
  const [a, b, c] = [generateEd25519Key(), generateEd25519Key(), generateEd25519Key()];
  const trust = { clusterId: CLUSTER, epoch: 5, nowMs: NOW + 10_000 };
  const start = { keys: [rawOf(a)] as const, floor: undefined };
  const link = (serial: number, by: Secret<string>, ...keys: readonly Secret<string>[]): Uint8Array =>
    signDocument({ ...content('owners', { keys: keys.map(base64Of) }), serial }, by);

  test('follows each set of owners to the next, regardless of expiry and epoch', () => {
    const chain = [link(1, a, a), link(2, a, a, b), link(3, b, b)];
    const now = resolveOwners(start, chain, trust);
    expect(now.keys).toEqual([rawOf(b)]);
    expect(now.floor?.serial).toBe(3);
    expect(resolveOwners(now, chain, trust)).toEqual(now);
    expect(resolveOwners(start, [], trust)).toEqual(start);
  });

  test('skips documents before the first one that a provisioned owner signed', () => {
    const chain = [link(1, a, a), link(2, a, a, b), link(3, b, b, c)];
    const later = { keys: [rawOf(b)] as const, floor: undefined };
    expect(resolveOwners(later, chain, trust).keys).toEqual([rawOf(b), rawOf(c)]);
    const otherKey = { keys: [rawOf(generateEd25519Key())] as const, floor: undefined };
    expect(resolveOwners(otherKey, chain, trust)).toEqual(otherKey);
  });

  test('refuses a set that was signed by a removed owner', () => {
    const chain = [link(1, a, a, b), link(2, b, b), link(3, a, a, c)];
    expect(() => resolveOwners(start, chain, trust)).toThrow(coded('owner-document-signer-unknown'));
  });

  test('refuses a second set of owners with the serial of the current set', () => {
    const now = resolveOwners(start, [link(1, a, a, b)], trust);
    expect(() => resolveOwners(now, [link(1, a, a, c)], trust)).toThrow(
      coded('owner-document-serial-conflict'),
    );
  });

  test('firstSerial() of a restored epoch is above what a machine has accepted before, and follows it', () => {
    expect(firstSerial(1)).toBe(1);
    const now = resolveOwners(start, [link(1, a, a, b), link(2, b, a, b)], trust);
    const restored = resolveOwners(now, [link(firstSerial(2), a, a)], trust);
    expect(restored).toMatchObject({ keys: [rawOf(a)], floor: { serial: 1_000_001 } });
    expect(resolveOwners(restored, [link(firstSerial(2) + 1, a, a, c)], trust).keys).toHaveLength(2);
  });

  test('refuses a set of another cluster', () => {
    const chain = [link(1, a, a, b)];
    const elsewhere = { ...trust, clusterId: 'e'.repeat(32) };
    expect(() => resolveOwners(start, chain, elsewhere)).toThrow(coded('owner-document-cluster-mismatch'));
  });
});

function contentOf(document: Uint8Array): string {
  return Buffer.from(document.subarray(4, -64)).toString('utf8');
}

/** A document with a signature of zeros, for checks that come before the signature is verified. */
function enveloped(given: string | Uint8Array): Uint8Array {
  const body = Buffer.from(given);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return new Uint8Array(Buffer.concat([length, body, Buffer.alloc(64)]));
}

/** Replaces content by other content of the same length and keeps the signature. */
function swapped(document: Uint8Array, from: string, to: string): Uint8Array {
  const text = contentOf(document).replace(from, to);
  return new Uint8Array(Buffer.concat([enveloped(text).subarray(0, -64), document.subarray(-64)]));
}

function resigned(document: Uint8Array, statement: (payload: Uint8Array) => Uint8Array): Uint8Array {
  const payload = document.subarray(0, -64);
  const signature = sign(undefined, statement(payload), createPrivateKey(owner.reveal()));
  return new Uint8Array(Buffer.concat([payload, signature]));
}
