import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { createMemoryLogger, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { issueCrl } from '../../internal/testing/pki/index.ts';
import { ClusterCollateral } from './cluster-collateral.ts';

const amd = new TestAmd('Milan');
const crl = issueCrl({ issuer: amd.ark });
const items: readonly CollateralItem[] = [
  { kind: 'certificate', der: amd.ark.der },
  { kind: 'crl', der: crl },
];
const one = encodeBundle({ assembledMs: 0, items });
const two = encodeBundle({ assembledMs: 0, items: items.slice(0, 1) });

let etcd: MemoryEtcd;
let collateral: ClusterCollateral;
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
  collateral = new ClusterCollateral({ etcd, log: createMemoryLogger().log });
  running = settle()
    .then(() => collateral.run(stop.signal))
    .catch((error: unknown) => error);
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

async function upload(bundle: string): Promise<void> {
  const record = {
    version: 1 as const,
    bundle: btoa(bundle),
    evaluationNumber: 3,
    updatedMs: 1,
    updatedBy: 'x',
  };
  await store(records.collateral.encode(record));
}

async function store(value: Uint8Array): Promise<void> {
  await etcd.commit({ when: [], then: [put(COLLATERAL_KEY, value)] }, { signal: stop.signal });
  await settle();
}

async function fetch(knownSha256 = new Uint8Array()): Promise<string> {
  const { bundle } = await collateral.fetch(knownSha256, stop.signal);
  return Buffer.from(bundle).toString();
}

describe('ClusterCollateral', () => {
  test('ClusterCollateral is empty before the first upload', async () => {
    expect(collateral.current).toEqual({});
    await settle();
    expect(collateral.current).toEqual({});
  });

  test('ClusterCollateral provides the newest upload to validators', async () => {
    await upload(one);
    expect(collateral.current.snp?.crls).toEqual([crl]);
    expect(collateral.current.tdx?.seenEvaluationNumber).toBe(3);
    await upload(two);
    expect(collateral.current.snp?.crls).toEqual([]);
  });

  test('fetch() waits for the first read of etcd and returns nothing before the first upload', async () => {
    expect(await fetch()).toBe('');
  });

  test('fetch() returns the newest upload, and nothing to a caller that has it already', async () => {
    await upload(one);
    expect(await fetch()).toBe(one);
    const known = createHash('sha256').update(one).digest();
    expect(await fetch(known)).toBe('');
    await upload(two);
    expect(await fetch(known)).toBe(two);
  });

  const unusable = [
    { name: 'is not a collateral record', bad: () => store(Buffer.from('hello')) },
    { name: 'contains no collateral bundle', bad: () => upload('hello') },
  ];
  test.each(unusable)('keeps the previous upload when the new one $name', async ({ bad }) => {
    await upload(one);
    const before = collateral.current;
    await bad();
    expect(collateral.current).toBe(before);
    expect(await fetch()).toBe(one);
  });
});
