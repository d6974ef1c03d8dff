import { expect, test } from '@jest/globals';
import {
  createPairs,
  createServersCa,
  publicKeysOf,
  SERVERS_CA,
  signedKeysOf,
} from '../../../internal/keyset/index.ts';
import { signDocument } from '../../../internal/ownerdocument/index.ts';
import { createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { readJson } from '../../../internal/file/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey } from '../../operators/index.ts';
import { contextOf, createCuratorHarness } from '../curator/fake-curator.ts';
import { readCaller } from '../curator/caller.ts';
import { saveWorkspaceCa } from '../curator/known-ca.ts';
import { followServersCas } from './servers-ca.ts';

const nowMs = Date.now();
const firstKey = generateKeyPem();
const first = {
  public: await createCaCertPem({ commonName: 'kubernetes', keyPem: firstKey, nowMs, pathLength: 1 }),
  private: firstKey,
};
const next = await createServersCa(2, nowMs, first);
const forged = await createServersCa(2, nowMs, first);
const signed = signedKeysOf(
  publicKeysOf({
    ...{ generation: 2, phase: 'distribute' },
    previous: { ...(await createPairs(1, nowMs)), [SERVERS_CA]: first },
    next: { ...(await createPairs(2, nowMs)), [SERVERS_CA]: next },
  }),
);
const both = `${first.public}${next.public}`;

/**
 * The CAs of API servers that a workspace adopts if it knows the first CA, or `known`; undefined if it keeps the CAs
 * that it has.
 */
async function take(
  told: string,
  by: {
    readonly phase: string;
    readonly known?: string;
    readonly isSigned?: boolean;
    /** The newest document that the workspace has accepted; the curator shows serial 1. */
    readonly accepted?: number;
    /** By default the owner; an operator's grant names the owners, or none. */
    readonly operator?: { readonly knowsOwners: boolean };
  },
): Promise<string | undefined> {
  await using harness = await createCuratorHarness(
    {},
    {
      getClusterCa: async () => ({ clusterCaPem: '', ownerDocuments: documents }),
      getKeys: async () => ({ stage: { generation: 2n, phase: by.phase } }),
    },
  );
  const { owner, files, clock } = harness;
  const { keyPem, clusterId, ca, caFile } = await readCaller(owner);
  const issuedMs = clock.nowMs();
  const head = { kind: 'keys', clusterId, epoch: 1, serial: 1 } as const;
  const document = { ...head, issuedMs, endsMs: issuedMs + 1e9, body: signed };
  const documents = by.isSigned === false ? [] : [signDocument(document, keyPem)];
  const context = by.operator === undefined ? owner : await addOperator(harness, by.operator);
  if (by.accepted !== undefined)
    await saveWorkspaceCa(files, caFile, { ...ca, floors: { keys: { serial: by.accepted } } });
  try {
    return (await followServersCas(context, { known: by.known ?? first.public, told }))?.kubernetesCaPem;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

async function addOperator(
  { files, owner }: Awaited<ReturnType<typeof createCuratorHarness>>,
  { knowsOwners }: { readonly knowsOwners: boolean },
) {
  const ann = contextOf(files, '/ann');
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  if (knowsOwners) return ann;
  const { grant, ...others } = (await readJson(files, '/ann/identity.json', 1_000_000)) as { grant: object };
  const { ownerKeys: _, ...earlier } = grant as { readonly ownerKeys?: unknown };
  await files.writeAtomic('/ann/identity.json', JSON.stringify({ ...others, grant: earlier }), {
    mode: 0o600,
  });
  return ann;
}

test('followServersCas() adopts CAs of API servers that an owner has signed, and drops the old CA once all servers have the new one', async () => {
  expect(await take(both, { phase: 'issue' })).toBe(both);
  for (const phase of ['refresh', 'retire', 'done']) expect(await take(both, { phase })).toBe(next.public);
  expect(await take(next.public, { phase: 'done' })).toBe(next.public);
});

test('followServersCas() refuses CAs that no owner has signed, and keeps the known CAs if a curator shows no other', async () => {
  const refused = 'cluster-result-invalid';
  expect(await take(forged.public, { phase: 'done' })).toBe(refused);
  expect(await take(`${next.public}${forged.public}`, { phase: 'done' })).toBe(refused);
  expect(await take(next.public, { phase: 'done', isSigned: false })).toBe(refused);
  // In these phases only the next CA counts, and this response does not contain it.
  expect(await take(` ${first.public}${first.public}`, { phase: 'done' })).toBe(refused);
  for (const told of ['', first.public])
    expect(await take(told, { phase: 'done', isSigned: false })).toBeUndefined();
});

test('followServersCas() never returns to a replaced CA, whatever phase a curator reports', async () => {
  const known = next.public;
  expect(await take(first.public, { phase: 'issue', known })).toBe('cluster-result-invalid');
  expect(await take(both, { phase: 'issue', known })).toBe(next.public);
});

test('followServersCas() refuses a signed generation that is older than the accepted one', async () => {
  expect(await take(next.public, { phase: 'done', accepted: 1 })).toBe(next.public);
  expect(await take(next.public, { phase: 'done', accepted: 2 })).toBe('cluster-result-invalid');
});

test('followServersCas() adopts for an operator only CAs signed by owners in the grant; without owners there, the CA of the grant stays', async () => {
  const operator = { knowsOwners: true };
  expect(await take(next.public, { phase: 'done', operator })).toBe(next.public);
  expect(await take(forged.public, { phase: 'done', operator })).toBe('cluster-result-invalid');
  expect(await take(forged.public, { phase: 'done', operator: { knowsOwners: false } })).toBeUndefined();
});

test('readCaller() uses the adopted CAs of API servers only with the init or the grant for which they were saved', async () => {
  await using harness = await createCuratorHarness();
  const { owner, files } = harness;
  const { ca, caFile, kubernetes } = await readCaller(owner);
  await saveWorkspaceCa(files, caFile, { ...ca, kubernetesCaPem: next.public });
  expect((await readCaller(owner)).kubernetes?.caPem).toBe(next.public);
  await saveWorkspaceCa(files, { ...caFile, of: 'another init' }, { ...ca, kubernetesCaPem: next.public });
  expect((await readCaller(owner)).kubernetes).toEqual(kubernetes);
});
