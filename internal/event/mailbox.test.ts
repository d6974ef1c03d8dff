import { describe, expect, test } from '@jest/globals';
import { Mailbox } from './index.ts';

const never = new AbortController().signal;

async function all<T>(messages: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const each of messages) seen.push(each);
  return seen;
}

describe('Mailbox', () => {
  test('yields each message once, in order, and then ends', async () => {
    const box = new Mailbox<number>(8);
    const seen = all(box.read(never));
    for (const item of [1, 2]) expect(box.push(item)).toBe(true);
    await Promise.resolve();
    box.push(3);
    box.close();
    expect(await seen).toEqual([1, 2, 3]);
  });

  test('refuses messages when it is full or closed', () => {
    const box = new Mailbox<number>(2);
    expect([box.push(1), box.push(2), box.push(3)]).toEqual([true, true, false]);
    const closed = new Mailbox<number>(2);
    closed.close();
    expect(closed.push(1)).toBe(false);
  });

  test('throws its error after the queued messages; only the first close() has an effect', async () => {
    const box = new Mailbox<number>(8);
    box.push(1);
    box.close({ error: new Error('gone') });
    box.close();
    const seen = box.read(never);
    expect((await seen.next()).value).toBe(1);
    await expect(seen.next()).rejects.toThrow('gone');
  });

  test('stops waiting when the signal fires', async () => {
    const stop = new AbortController();
    const next = new Mailbox<number>(8).read(stop.signal).next();
    stop.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
  });

  test('refuses a second reader, and messages after its reader has stopped', async () => {
    const box = new Mailbox<number>(8);
    box.push(1);
    for await (const _ of box.read(never)) break;
    expect(box.push(2)).toBe(false);
    await expect(box.read(never).next()).rejects.toThrow('already has a reader');
  });
});
