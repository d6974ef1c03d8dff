import { beforeEach, describe, expect, test } from '@jest/globals';
import { getEventListeners } from 'node:events';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { EnrolmentError } from './errors.ts';
import { untilFileChanges } from './until-file-changes.ts';

const PATH = '/lock.json';
const named = new EnrolmentError('enrolment-files-missing', 'it is gone', { details: { path: PATH } });

let files: MemoryFiles;
let clock: FakeClock;
let stop: AbortController;
let log: ReturnType<typeof createMemoryLogger>['log'];
beforeEach(() => {
  files = new MemoryFiles();
  clock = new FakeClock();
  stop = new AbortController();
  ({ log } = createMemoryLogger());
});

describe('untilFileChanges()', () => {
  test.each([
    { name: 'is restored', before: undefined, after: '{}' },
    { name: 'is replaced', before: '{"cut', after: '{"whole":true}' },
    { name: 'is deleted', before: '{"cut', after: undefined },
  ])('ends when the file that the error names $name', async ({ before, after }) => {
    if (before !== undefined) await files.writeAtomic(PATH, before);
    let isFixed = false;
    const waiting = untilFileChanges({ files, clock, log }, named, stop.signal).then(() => (isFixed = true));
    await clock.advance(60_000);
    expect(isFixed).toBe(false);
    if (after === undefined) await files.remove(PATH);
    else await files.writeAtomic(PATH, after);
    await clock.advance(2_000);
    await waiting;
    expect([isFixed, clock.sleeping]).toEqual([true, 0]);
  });

  test.each([
    { name: 'that names a file', error: named },
    { name: 'that names no file', error: new EnrolmentError('enrolment-stuck', 'who knows') },
  ])('ends with its signal for an error $name', async ({ error }) => {
    const waiting = untilFileChanges({ files, clock, log }, error, stop.signal);
    await clock.advance(60_000);
    const reason = new Error('stopped');
    stop.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect([clock.sleeping, getEventListeners(stop.signal, 'abort').length]).toEqual([0, 0]);
  });
});
