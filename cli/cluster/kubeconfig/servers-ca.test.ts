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
import { createCuratorHarness } from '../curator/fake-curator.ts';
import { readCaller, type Caller } from '../curator/caller.ts';
import { verifiedServersCas } from './servers-ca.ts';

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
    ...{ generation: 2, phase: 'hand' },
    previous: { ...(await createPairs(1, nowMs)), [SERVERS_CA]: first },
    next: { ...(await createPairs(2, nowMs)), [SERVERS_CA]: next },
  }),
);
const both = `${first.public}${next.public}`;

/** What the owner of a workspace takes as the CAs of API servers. */
async function take(
  told: string,
  by: { readonly phase: string; readonly isSigned?: boolean; readonly as?: Partial<Caller> },
): Promise<string> {
  let documents: Uint8Array[] = [];
  await using harness = await createCuratorHarness(
    {},
    {
      listDocuments: async () => ({ documents, removed: [], epoch: 1n }),
      getKeys: async () => ({ stage: { generation: 2n, phase: by.phase } }),
    },
  );
  const caller = await readCaller(harness.owner);
  const head = { kind: 'keys', clusterId: caller.clusterId, epoch: 1, serial: 1 } as const;
  const issuedMs = harness.clock.nowMs();
  const document = { ...head, issuedMs, endsMs: issuedMs + 1e9, body: signed };
  if (by.isSigned !== false) documents = [signDocument(document, caller.keyPem)];
  try {
    return await verifiedServersCas(harness.owner, { ...caller, ...by.as }, { known: first.public, told });
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test('takes the CAs of API servers that an owner has signed, and the next one alone once all servers have it', async () => {
  expect(await take(both, { phase: 'issue' })).toBe(both);
  for (const phase of ['refresh', 'retire', 'done']) expect(await take(both, { phase })).toBe(next.public);
  expect(await take(next.public, { phase: 'done' })).toBe(next.public);
});

test('refuses CAs that no owner has signed, and keeps its own from a curator that shows no other', async () => {
  const refused = 'cluster-result-invalid';
  expect(await take(forged.public, { phase: 'done' })).toBe(refused);
  expect(await take(`${next.public}${forged.public}`, { phase: 'done' })).toBe(refused);
  expect(await take(next.public, { phase: 'done', isSigned: false })).toBe(refused);
  // Without the next CA, nothing is left in these phases.
  expect(await take(` ${first.public}${first.public}`, { phase: 'done' })).toBe(refused);
  for (const told of ['', first.public])
    expect(await take(told, { phase: 'done', isSigned: false })).toBe(first.public);
});

test('an operator, who knows no owner, keeps the CA of the grant', async () => {
  expect(await take(forged.public, { phase: 'done', as: { kind: 'operator', vouchers: [] } })).toBe(
    first.public,
  );
});
