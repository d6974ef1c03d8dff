import { describe, expect, test } from '@jest/globals';
import { Writable } from 'node:stream';
import { lineSink, type LogRecord } from './index.ts';

const record = (message: string): LogRecord => ({
  timeMs: 0,
  level: 'info',
  path: 'root',
  message,
  fields: {},
});

/** An output that accepts each line only when the test calls a method. */
class Journal extends Writable {
  readonly taken: string[] = [];
  #pending: ((error?: Error) => void) | undefined;

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    this.taken.push(chunk.toString());
    this.#pending = done;
  }

  /** Accepts all waiting lines. */
  takeAll(): void {
    for (let done = this.#pending; done !== undefined; done = this.#pending) {
      this.#pending = undefined;
      done();
    }
  }

  async breakDown(): Promise<void> {
    const closed = new Promise((resolve) => this.once('close', resolve));
    this.#pending?.(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    await closed;
  }
}

describe('lineSink()', () => {
  test('writes a line for each record', () => {
    const journal = new Journal();
    lineSink(journal)(record('hello'));
    expect(journal.taken.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ message: 'hello' }]);
  });

  test('ignores a closed output (EPIPE)', async () => {
    const journal = new Journal();
    const sink = lineSink(journal);
    sink(record('the last one'));
    await journal.breakDown(); // without a listener, this error would end the program
    sink(record('nobody reads this'));
    expect(journal.taken).toHaveLength(1);
  });

  test('buffers a limited amount for a blocked reader and reports the dropped lines', () => {
    const journal = new Journal();
    const sink = lineSink(journal);
    const text = 'x'.repeat(10_000);
    for (let i = 0; i < 1_000; i++) sink(record(text));
    expect(journal.writableLength).toBeLessThan(2 * 1024 * 1024);
    journal.takeAll();
    const kept = journal.taken.length;
    expect(kept).toBeGreaterThan(50);
    sink(record('again'));
    journal.takeAll();
    expect(journal.taken.slice(kept).map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { level: 'warn', path: 'log', lines: 1_000 - kept },
      { message: 'again' },
    ]);
  });
});
