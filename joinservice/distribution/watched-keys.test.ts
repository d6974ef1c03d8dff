import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { put, type WatchedKey } from '../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { watchConfigurationHash, watchKeyStage } from './watched-keys.ts';

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
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

async function start(watch: typeof watchKeyStage): Promise<WatchedKey<string>> {
  const watched = watch({ etcd, log: createMemoryLogger().log });
  running = watched.run(stop.signal).catch((error: unknown) => error);
  await settle();
  return watched;
}

test('watchKeyStage() provides an empty stage before the first rotation, and keeps the previous stage if the record is invalid', async () => {
  const { value } = await start(watchKeyStage);
  const write = async (bytes: Uint8Array): Promise<unknown> => {
    await etcd.commit({ when: [], then: [put(KEYS_KEY, bytes)] }, { signal: stop.signal });
    await settle();
    const now = value.peek();
    return now.set ? now.value : undefined;
  };
  expect(value.peek()).toEqual(expect.objectContaining({ set: true, value: '' }));
  expect(await write(records.keys.encode(record))).toBe('2/asked');
  expect(await write(records.keys.encode({ ...record, phase: 'trust' }))).toBe('2/trust');
  expect(await write(Buffer.from('{'))).toBe('2/trust');
});

test('watchConfigurationHash() provides the hash of each new configuration, and nothing if only its author changes', async () => {
  const { value } = await start(watchConfigurationHash);
  const seen: unknown[] = [];
  using watcher = value.watch();
  const reading = (async () => {
    for (;;) seen.push(await watcher.next(stop.signal));
  })().catch(() => 0);
  const texts = ['{}', '{}', '{"a":1}'];
  for (const [at, text] of texts.entries()) {
    const stored = {
      version: 1,
      document: Buffer.from(text).toString('base64'),
      updatedMs: at,
      updatedBy: 'x',
    } as const;
    etcd.commitNow({ when: [], then: [records.configuration.put(CONFIGURATION_KEY, stored)] });
    await settle();
  }
  const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
  expect(seen).toEqual(['', hash('{}'), hash('{"a":1}')]);
  stop.abort(new Error('the test is over'));
  await reading;
});
