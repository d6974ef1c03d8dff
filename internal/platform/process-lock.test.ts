import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles, FileError } from '../file/index.ts';
import { acquireProcessLock } from './process-lock.ts';
import { currentProcessIdentity, processorTicks } from './process-identity.ts';

const files = new DiskFiles();
let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'guard-'));
  path = join(directory, 'agent.lock');
});
afterEach(() => rm(directory, { recursive: true }));

/** Creates the lock that a killed process leaves. */
async function leaveLock(owner: object | undefined): Promise<void> {
  await mkdir(path);
  const holder = { id: randomUUID(), about: { what: 'agent' }, process: owner };
  await writeFile(join(path, 'holder.json'), JSON.stringify(holder));
}

test('acquireProcessLock() admits one process, names it in the error of the next process, and leaves no files', async () => {
  const first = await acquireProcessLock(files, path, { what: 'agent' });
  await expect(acquireProcessLock(files, path)).rejects.toMatchObject({
    code: 'platform-already-running',
    details: { pid: process.pid, about: { what: 'agent' } },
  });
  await first[Symbol.asyncDispose]();
  await (await acquireProcessLock(files, path))[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});

const times = [new Date(0), new Date('2099-01-01')];
test.each(times)(
  "acquireProcessLock() refuses a second process while the first one runs, when the lock's time is %s",
  async (time) => {
    await leaveLock(await currentProcessIdentity(files));
    await utimes(path, time, time);
    await expect(acquireProcessLock(files, path)).rejects.toMatchObject({ code: 'platform-already-running' });
  },
);

const dead = [
  { name: 'a process that was killed', owner: { pid: 2 ** 22 + 1, startTicks: '1' } },
  {
    name: 'a process that ended and whose id another process has now',
    owner: { pid: process.pid, startTicks: '1' },
  },
  { name: 'a process that ran before the last boot', owner: { bootId: 'another' } },
];
test.each(dead)(
  'acquireProcessLock() takes over the lock of $name, even if the lock has a time in the future',
  async ({ owner }) => {
    await leaveLock({ ...(await currentProcessIdentity(files)), ...owner });
    await utimes(path, new Date('2099-01-01'), new Date('2099-01-01'));
    await (await acquireProcessLock(files, path))[Symbol.asyncDispose]();
    expect(await readdir(directory)).toEqual([]);
  },
);

test('acquireProcessLock() does not take over a lock of another machine, whose processes it cannot check', async () => {
  await leaveLock({ ...(await currentProcessIdentity(files)), machineId: 'another' });
  await expect(acquireProcessLock(files, path)).rejects.toMatchObject({ code: 'platform-already-running' });
});

test.each(['file-permission', 'file-no-space', 'file-read-only'] as const)(
  'acquireProcessLock() fails with %s, and not with an internal error, when its directory cannot be written',
  async (code) => {
    const unwritable = Object.assign(new DiskFiles(), {
      makeDirectory: async (prepared: string): Promise<never> => {
        throw new FileError(code, `creating directory ${prepared}`, { cause: new Error('EX: reason') });
      },
    });
    await expect(acquireProcessLock(unwritable, path)).rejects.toMatchObject({
      code,
      message: `locking ${path}`,
      cause: { message: 'EX: reason' },
    });
  },
);

test('acquireProcessLock() replaces an empty directory that a holder left when it was killed during its release', async () => {
  await mkdir(path);
  await (await acquireProcessLock(files, path))[Symbol.asyncDispose]();
});

test('acquireProcessLock() admits exactly one of many processes, however often they try', async () => {
  let inside = 0;
  const enter = async (): Promise<'in' | 'out'> => {
    try {
      await using _lock = await acquireProcessLock(files, path);
      expect(++inside).toBe(1);
      await files.stat(directory);
      inside--;
      return 'in';
    } catch (error) {
      expect(error).toMatchObject({ code: 'platform-already-running' });
      return 'out';
    }
  };
  for (let round = 0; round < 20; round++) {
    await leaveLock({ ...(await currentProcessIdentity(files)), bootId: `boot ${round}` });
    const results = await Promise.all(Array.from({ length: 6 }, enter));
    expect(results).toContain('in');
  }
  expect(await readdir(directory)).toEqual([]);
});

test('processorTicks() grows while a process runs, and is undefined for a process that does not exist', async () => {
  const before = await processorTicks(files, process.pid);
  for (const untilMs = performance.now() + 200; performance.now() < untilMs;);
  expect(await processorTicks(files, process.pid)).toBeGreaterThan(before ?? Infinity);
  expect(await processorTicks(files, 2 ** 22 + 1)).toBeUndefined();
});
