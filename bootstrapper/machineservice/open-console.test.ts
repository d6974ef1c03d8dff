import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, FakeClock, settle } from '../../internal/testing/index.ts';
import type { ConsoleEntry } from './locked-disk.ts';
import { openConsole } from './open-console.ts';

const entryOf = (areConsoles: boolean): ConsoleEntry => ({
  commands: { run: () => Promise.reject(new Error('not used')) },
  sources: { paths: ['/dev/ttyS0'], areConsoles },
  challenge: { text: 'CHALLENGE', open: () => undefined },
  lines: ['CHALLENGE', 'Then type the code'],
});

/** Opens the console with one answer after the other: an error, an entry, or undefined for a disk that has none. */
function start(...answers: (Error | ConsoleEntry | undefined)[]) {
  const [clock, stop, { log, records }] = [new FakeClock(), new AbortController(), createMemoryLogger()];
  const printed: (readonly string[])[] = [];
  const find = async (): Promise<ConsoleEntry | undefined> => {
    if (answers.length === 0) throw new Error('called too often');
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const print = async (lines: readonly string[]): Promise<void> => void printed.push(lines);
  const opened = openConsole({ clock, log, find, print }, stop.signal);
  opened.catch(() => undefined); // a test that ends it
  return { clock, stop, opened, printed, records };
}

describe('openConsole()', () => {
  test('prints the challenge above a login prompt; consoles without logins show it by themselves', async () => {
    for (const areConsoles of [false, true]) {
      const entry = entryOf(areConsoles);
      const { opened, printed } = start(entry);
      expect(await opened).toBe(entry);
      expect(printed).toEqual([areConsoles ? [] : entry.lines]);
    }
  });

  test('tries again while the disk cannot be read, and says why there is no challenge, once', async () => {
    const entry = entryOf(false);
    const { clock, opened, printed, records } = start(new Error('a\\b busy'), new Error('a\\b busy'), entry);
    await clock.advance(10_000);
    expect(printed).toEqual([['No challenge for a recovery without a network: a/b busy']]);
    expect(records).toMatchObject([
      { message: 'no recovery at the console', fields: { reason: 'a\\b busy' } },
    ]);
    await clock.advance(10_000);
    expect(await opened).toBe(entry);
    expect(printed).toEqual([printed[0], entry.lines]);
    expect(clock.sleeping).toBe(0);
  });

  test('says that the record of a disk has no challenge, and does not try again', async () => {
    const { opened, printed, clock } = start(undefined);
    expect(await opened).toBeUndefined();
    expect(printed).toEqual([[expect.stringMatching(/^No challenge .*: the record of the disk has none/)]]);
    expect(clock.sleeping).toBe(0);
  });

  test('ends when the disk is recovered otherwise', async () => {
    const { opened, stop, clock } = start(new Error('busy'));
    await settle();
    const recovered = new Error('the disk is open');
    stop.abort(recovered);
    await expect(opened).rejects.toBe(recovered);
    expect(clock.sleeping).toBe(0);
  });
});
