import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { CONFIGURATION_KEY, records } from '../../internal/records/index.ts';
import { MemoryEtcd, settle } from '../../internal/testing/index.ts';
import { ConfigurationFeed } from './configuration-feed.ts';

let etcd: MemoryEtcd;
let feed: ConfigurationFeed;
let stop: AbortController;
let running: Promise<unknown>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  stop = new AbortController();
  feed = new ConfigurationFeed({ etcd });
  running = feed.run(stop.signal).catch((error: unknown) => error);
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running;
});

test('ConfigurationFeed provides the hash of each new configuration, and nothing if only its author changes', async () => {
  await settle();
  const seen: unknown[] = [];
  using watcher = feed.sha256.watch();
  const reading = (async () => {
    for (;;) seen.push(await watcher.next(stop.signal));
  })().catch(() => 0);
  const texts = ['{}', '{}', '{"a":1}'];
  for (const [at, text] of texts.entries()) {
    const record = {
      version: 1,
      document: Buffer.from(text).toString('base64'),
      updatedMs: at,
      updatedBy: 'x',
    } as const;
    etcd.commitNow({ when: [], then: [records.configuration.put(CONFIGURATION_KEY, record)] });
    await settle();
  }
  const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
  expect(seen).toEqual(['', hash('{}'), hash('{"a":1}')]);
  stop.abort(new Error('the test is over'));
  await reading;
});
