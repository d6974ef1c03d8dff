import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { put } from '../../internal/etcd/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { KeysFeed } from './keys-feed.ts';

const record: KeysRecord = {
  version: 1,
  generation: 2,
  phase: 'asked',
  startedMs: 1,
  phaseSinceMs: 1,
  startedBy: 'operator:owner',
  reason: '',
};

let etcd: MemoryEtcd;
let feed: KeysFeed;
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
  feed = new KeysFeed({ etcd, log: createMemoryLogger().log });
  running = feed.run(stop.signal).catch((error: unknown) => error);
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

const write = async (value: Uint8Array): Promise<unknown> => {
  await etcd.commit({ when: [], then: [put(KEYS_KEY, value)] }, { signal: stop.signal });
  await settle();
  const now = feed.stage.peek();
  return now.set ? now.value : undefined;
};

test('KeysFeed provides an empty stage before the first rotation, and keeps the previous stage if the record is invalid', async () => {
  expect(feed.stage.peek()).toEqual(expect.objectContaining({ set: true, value: '' }));
  expect(await write(records.keys.encode(record))).toBe('2/asked');
  expect(await write(records.keys.encode({ ...record, phase: 'trust' }))).toBe('2/trust');
  expect(await write(Buffer.from('{'))).toBe('2/trust');
});
