import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { put } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { FetchCollateralRequestSchema } from '../curatorproto/gen/distribution_pb.js';
import { CollateralFeed } from './collateral-feed.ts';
import { DirectoryFeed } from './directory-feed.ts';
import { distributionHandlers } from './distribution-handlers.ts';

const caller = { kind: 'node', nodeId: 'x', name: 'x' } as const;

let etcd: MemoryEtcd;
let stop: AbortController;
let running: Promise<unknown>;
let fetchOf: (known?: Uint8Array) => Promise<string>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
  const { signal } = stop;
  const collateral = new CollateralFeed({ etcd, log: createMemoryLogger().log });
  const nodes = { subscribe: () => Promise.reject(new Error('not part of this test')) };
  const feed = new DirectoryFeed({ nodes, clock: new FakeClock() });
  const keys = { stage: new EventValue<string>() };
  const handlers = distributionHandlers({ etcd, feed, keys, collateral, blobs: undefined });
  running = settle()
    .then(() => collateral.run(signal))
    .catch((error: unknown) => error);
  fetchOf = async (known = new Uint8Array()) => {
    const request = create(FetchCollateralRequestSchema, { knownSha256: known });
    const { bundle } = await handlers.fetchCollateral(request, {
      peer: caller,
      signal,
      address: '192.0.2.1',
    });
    return Buffer.from(bundle ?? []).toString();
  };
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

async function handOn(value: Uint8Array): Promise<void> {
  await etcd.commit({ when: [], then: [put(COLLATERAL_KEY, value)] }, { signal: stop.signal });
  await settle();
}

const recordOf = (bundle: string): Uint8Array =>
  records.collateral.encode({
    version: 1,
    bundle: btoa(bundle),
    evaluationNumber: 1,
    updatedMs: 1,
    updatedBy: 'x',
  });

describe('fetchCollateral', () => {
  test('waits for the first look at the store, and answers nothing when nobody handed anything on', async () => {
    expect(await fetchOf()).toBe('');
  });

  test('answers what was handed on last, and not again to who has it', async () => {
    await handOn(recordOf('one'));
    expect(await fetchOf()).toBe('one');
    const known = createHash('sha256').update('one').digest();
    expect(await fetchOf(known)).toBe('');
    await handOn(recordOf('two'));
    expect(await fetchOf(known)).toBe('two');
  });

  test('goes on with what it had when a record is bad', async () => {
    await handOn(recordOf('one'));
    await handOn(Buffer.from('hello'));
    expect(await fetchOf()).toBe('one');
  });
});
