import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { createMemoryLogger, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { issueCrl } from '../../internal/testing/pki/index.ts';
import { CollateralSource } from './collateral-source.ts';

const never = new AbortController().signal;
const amd = new TestAmd('Milan');
const crl = issueCrl({ issuer: amd.ark });
const items: readonly CollateralItem[] = [
  { kind: 'certificate', der: amd.ark.der },
  { kind: 'crl', der: crl },
];

let etcd: MemoryEtcd;
let source: CollateralSource;
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(async () => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
  source = new CollateralSource({ etcd, log: createMemoryLogger().log });
  running = source.run(stop.signal).catch((error: unknown) => error);
  await settle();
});
afterEach(async () => {
  stop.abort();
  await running;
});

async function handOn(bundle: string, evaluationNumber = 3): Promise<void> {
  const record = {
    version: 1 as const,
    bundle: btoa(bundle),
    evaluationNumber,
    updatedMs: 1,
    updatedBy: 'x',
  };
  const value = records.collateral.encode(record);
  await etcd.commit({ when: [], then: [put(COLLATERAL_KEY, value)] }, { signal: never });
  await settle();
}

describe('CollateralSource', () => {
  test('has nothing before anything was handed on', () => {
    expect(source.current).toEqual({});
  });

  test('has what was handed on from the moment that it is there', async () => {
    await handOn(encodeBundle({ assembledMs: 0, items }));
    expect(source.current.snp?.crls).toEqual([crl]);
    await handOn(encodeBundle({ assembledMs: 0, items: items.slice(0, 1) }));
    expect(source.current.snp?.crls).toEqual([]);
  });

  test('keeps it when a record is bad', async () => {
    await handOn(encodeBundle({ assembledMs: 0, items }));
    const before = source.current;
    await handOn('hello');
    expect(source.current).toBe(before);
  });
});
