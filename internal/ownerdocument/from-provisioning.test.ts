import { expect, test } from '@jest/globals';
import { TestOwner } from '../testing/cluster/test-owner.ts';
import { proofFromProvisioning, verifyFromProvisioning, type ProvisionedTrust } from './from-provisioning.ts';
import { floorOf, verifyDocument } from './verify-document.ts';
import { parseDocument } from './owner-document.ts';

const clusterId = 'c1'.repeat(16);
const clock = { nowMs: () => 1_700_000_000_000 };
const [first, second, other] = [1, 2, 3].map(() => new TestOwner({ clock, clusterId })) as [
  TestOwner,
  TestOwner,
  TestOwner,
];
const base64Of = ({ pubKey }: TestOwner): string => Buffer.from(pubKey).toString('base64');
const trust: ProvisionedTrust = { ownerKeys: [first.pubKey], clusterId, epoch: 1, nowMs: clock.nowMs() };
const body = { generation: 2, previous: {}, next: { 'etcd-peers-ca': 'ab'.repeat(32) } };
const signed = first.sign('keys', body);
const handedOver = first.sign('owners', { keys: [base64Of(second)] });

test('verifyFromProvisioning() accepts a provisioned owner, and an owner to whom the provisioned owner signed over the cluster', () => {
  expect(verifyFromProvisioning('keys', [signed], trust)).toMatchObject({
    document: { kind: 'keys', body },
    owners: undefined,
  });
  const later = second.sign('keys', body);
  const { document, owners } = verifyFromProvisioning('keys', [later, handedOver], trust);
  expect(document.body).toEqual(body);
  const { ownerKeys: _, ...others } = trust;
  const expected = { ...others, owners: [first.pubKey], kind: 'owners', floor: undefined } as const;
  expect(owners).toEqual(floorOf(verifyDocument(handedOver, expected)));
});

const refused: readonly { name: string; documents: readonly Uint8Array[]; want: string }[] = [
  { name: 'an empty list of documents', documents: [], want: 'owner-document-required' },
  { name: 'a document of another kind', documents: [first.policy('x')], want: 'owner-document-required' },
  {
    name: 'two documents of the same kind',
    documents: [signed, first.sign('keys', body)],
    want: 'owner-document-malformed',
  },
  {
    name: 'a document whose signer is no owner',
    documents: [other.sign('keys', body)],
    want: 'owner-document-signer-unknown',
  },
  {
    name: 'a document of a removed owner',
    documents: [signed, handedOver],
    want: 'owner-document-signer-unknown',
  },
  {
    name: 'a document of another cluster',
    documents: [new TestOwner({ clock, clusterId: 'other' }).sign('keys', body)],
    want: 'owner-document-signer-unknown',
  },
  {
    name: 'a document of another cluster of the same owner',
    documents: [first.sign('keys', body, { clusterId: 'other' })],
    want: 'owner-document-cluster-mismatch',
  },
  {
    name: 'a changed document',
    documents: [signed.map((byte, index) => (index === signed.length - 1 ? byte ^ 1 : byte))],
    want: 'owner-document-signature-invalid',
  },
  {
    name: 'too many documents',
    documents: Array.from({ length: 65 }, () => signed),
    want: 'owner-document-malformed',
  },
];
test.each(refused)('verifyFromProvisioning() refuses $name', ({ documents, want }) => {
  expect(() => verifyFromProvisioning('keys', documents, trust)).toThrow(
    expect.objectContaining({ code: want }),
  );
  expect(proofFromProvisioning('keys', documents, trust)).toMatchObject({ kind: 'unsigned' });
});

test('verifyFromProvisioning() refuses a document of an earlier epoch', () => {
  expect(parseDocument(signed).epoch).toBe(1);
  expect(() => verifyFromProvisioning('keys', [signed], { ...trust, epoch: 2 })).toThrow(
    expect.objectContaining({ code: 'owner-document-epoch-old' }),
  );
});
