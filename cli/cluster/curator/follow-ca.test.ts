import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { generateEd25519Key } from '../../../internal/crypto/index.ts';
import { signDocument, type DocumentContent } from '../../../internal/ownerdocument/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey, runOperatorList } from '../../operators/index.ts';
import { readCaller } from './caller.ts';
import { contextOf, createCuratorHarness } from './fake-curator.ts';

const coded = (code: string): unknown => expect.objectContaining({ code });
const digestOf = (pem: string): string => createHash('sha256').update(`${pem.trim()}\n`).digest('hex');

type Harness = Awaited<ReturnType<typeof createCuratorHarness>>;

/** The signature of an owner over the generation that replaces the CA. */
function signedBy(
  keyPem: Secret<string>,
  { generation, ...over }: Partial<DocumentContent<'keys'>> & { readonly generation?: number } = {},
) {
  return (previousPem: string, nextPem: string): Uint8Array[] => {
    const { serial = 1 } = over;
    const named = (pem: string) => ({ 'cluster-ca': digestOf(pem) });
    const body = { generation: generation ?? serial + 1, previous: named(previousPem), next: named(nextPem) };
    const head = { clusterId: '00112233445566778899aabbccddeeff', epoch: 1, serial, issuedMs: 1 };
    const document = { ...head, kind: 'keys' as const, endsMs: Number.MAX_SAFE_INTEGER, body, ...over };
    return [signDocument(document, keyPem)];
  };
}

async function addAnn({ files, owner }: Harness) {
  const ann = contextOf(files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  return ann;
}

describe('a workspace that was not used while the cluster CA was replaced', () => {
  test('adopts the CA that an owner has signed, reports it, renews its certificate and trusts only the new CA', async () => {
    await using harness = await createCuratorHarness();
    const { owner, replaceCa, ownerKey, asked } = harness;
    const { next } = await replaceCa(signedBy(ownerKey));
    await runOperatorList(owner);
    expect(asked.map((peer) => peer.kind === 'operator' && peer.name)).toEqual(['bare', 'renewed']);
    expect(owner.host.codes).toContain('cluster-ca-followed');
    expect(await readCaller(owner)).toMatchObject({
      clusterCaPem: `${next.caPem.trim()}\n`,
      ca: { generation: 2 },
    });
    await runOperatorList(owner);
    expect(owner.host.codes.filter((code) => code === 'cluster-ca-followed')).toHaveLength(1);
  });

  test('adopts, for an operator, a CA that was signed by an owner named in the grant', async () => {
    await using harness = await createCuratorHarness();
    const ann = await addAnn(harness);
    await harness.replaceCa(signedBy(harness.ownerKey));
    await runOperatorList(ann);
    expect(await readCaller(ann)).toMatchObject({ ca: { generation: 2 } });
  });

  test('does not return to a replaced CA, even if a curator with the old key shows the signed documents', async () => {
    await using harness = await createCuratorHarness();
    const { owner, replaceCa, ownerKey } = harness;
    const documents = signedBy(ownerKey);
    const { previous, next } = await replaceCa(documents);
    await runOperatorList(owner);
    await replaceCa(() => documents(previous.caPem, next.caPem), previous);
    await expect(runOperatorList(owner)).rejects.toEqual(coded('pki-untrusted'));
    expect(await readCaller(owner)).toMatchObject({ ca: { generation: 2 } });
  });

  test('adopts the CA of each later replacement, and refuses documents older than the accepted ones', async () => {
    await using harness = await createCuratorHarness();
    const { owner, replaceCa, ownerKey } = harness;
    await replaceCa(signedBy(ownerKey));
    await runOperatorList(owner);
    await replaceCa(signedBy(ownerKey, { serial: 2 }));
    await runOperatorList(owner);
    expect(await readCaller(owner)).toMatchObject({ ca: { generation: 3, floors: { keys: { serial: 2 } } } });
    await replaceCa(signedBy(ownerKey, { serial: 1, generation: 9 }));
    await expect(runOperatorList(owner)).rejects.toEqual(coded('pki-untrusted'));
  });

  test.each([
    { name: 'no owner has signed', documentsFor: () => [] },
    { name: 'another key has signed', documentsFor: signedBy(generateEd25519Key()) },
  ])('refuses a CA that $name', async ({ documentsFor }) => {
    await using harness = await createCuratorHarness();
    await harness.replaceCa(documentsFor);
    await expect(runOperatorList(harness.owner)).rejects.toEqual(coded('pki-untrusted'));
    expect(await readCaller(harness.owner)).toMatchObject({ ca: { generation: 1 } });
  });

  test('refuses a CA that an owner has signed for another cluster', async () => {
    await using harness = await createCuratorHarness();
    await harness.replaceCa(signedBy(harness.ownerKey, { clusterId: 'd1'.repeat(16) }));
    await expect(runOperatorList(harness.owner)).rejects.toEqual(coded('pki-untrusted'));
  });

  test('refuses a damaged file of trusted CAs, because without the file it would trust the CA of its init again', async () => {
    await using harness = await createCuratorHarness();
    const { owner, replaceCa, ownerKey, files } = harness;
    await replaceCa(signedBy(ownerKey));
    await runOperatorList(owner);
    await files.writeAtomic('/owner/cluster-ca.json', '{}');
    await expect(runOperatorList(owner)).rejects.toEqual(coded('cluster-ca-file-invalid'));
  });

  test('warns an operator whose grant names no owner, and adopts no new CA', async () => {
    await using harness = await createCuratorHarness();
    const ann = contextOf(harness.files, '/ann');
    await addAnn(harness);
    const identity = Buffer.from((await harness.files.read('/ann/identity.json', 1e6)) ?? []).toString(
      'utf8',
    );
    const { grant, ...others } = JSON.parse(identity) as { grant: { ownerKeys?: unknown } };
    delete grant.ownerKeys;
    await harness.files.writeAtomic('/ann/identity.json', JSON.stringify({ ...others, grant }), {
      mode: 0o600,
    });
    await harness.replaceCa(signedBy(harness.ownerKey));
    await expect(runOperatorList(ann)).rejects.toEqual(coded('pki-untrusted'));
    expect(ann.host.codes).toContain('cluster-owners-unknown');
  });
});
