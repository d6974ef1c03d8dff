import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { currentValue } from '../event/index.ts';
import { createMemoryLogger, MemoryEtcd, settle } from '../testing/index.ts';
import { put, remove, WatchedKey, type Entry } from './index.ts';

describe('WatchedKey', () => {
  let etcd: MemoryEtcd;
  let log: ReturnType<typeof createMemoryLogger>;
  let watched: WatchedKey<string>;
  let stop: AbortController;
  let running: Promise<unknown>;
  beforeEach(() => {
    etcd = new MemoryEtcd();
    log = createMemoryLogger();
    stop = new AbortController();
    const read = (entry: Entry | undefined): string => {
      const text = Buffer.from(entry?.value ?? []).toString('utf8');
      if (text === 'bad') throw new Error('not readable');
      return text;
    };
    watched = new WatchedKey({ etcd, log: log.log, key: 'a', read });
  });
  afterEach(async () => {
    stop.abort(new Error('the test is over'));
    await running;
  });

  const start = async (): Promise<void> => {
    running = watched.run(stop.signal).catch((error: unknown) => error);
    await settle();
  };
  const write = async (key: string, text: string): Promise<void> => {
    etcd.commitNow({ when: [], then: [put(key, Buffer.from(text))] });
    await settle();
  };
  const errors = (): number => log.records.filter(({ level }) => level === 'error').length;

  test('is unset before the first read, and has the value of its key from then on', async () => {
    expect(watched.value.peek().set).toBe(false);
    await start();
    expect(currentValue(watched.value)).toBe('');
    await write('a', 'one');
    await write('ab', 'other');
    expect(currentValue(watched.value)).toBe('one');
  });

  test('keeps the value and logs an error if an entry is invalid', async () => {
    await start();
    await write('a', 'one');
    await write('a', 'bad');
    expect([currentValue(watched.value), errors()]).toEqual(['one', 1]);
    await write('a', 'two');
    expect(currentValue(watched.value)).toBe('two');
  });

  test('starts with the value for a missing key if the first entry is invalid', async () => {
    etcd.commitNow({ when: [], then: [put('a', Buffer.from('bad'))] });
    await start();
    expect([currentValue(watched.value), errors()]).toEqual(['', 1]);
  });

  test('does not wake readers with an equal value', async () => {
    await start();
    await write('a', 'one');
    let woken = 0;
    using _subscription = watched.value.subscribe(() => void woken++);
    await write('a', 'one');
    expect(woken).toBe(0);
    await write('a', 'two');
    expect(woken).toBe(1);
  });

  test('keeps the value if the key is deleted while it is watched', async () => {
    await start();
    await write('a', 'one');
    etcd.commitNow({ when: [], then: [remove('a')] });
    await settle();
    expect(currentValue(watched.value)).toBe('one');
  });
});
