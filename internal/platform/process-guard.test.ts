import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles } from '../file/index.ts';
import { guardProcess } from './process-guard.ts';
import { ownIdentity } from './process-identity.ts';

const files = new DiskFiles();
let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'guard-'));
  path = join(folder, 'agent');
});
afterEach(() => rm(folder, { recursive: true }));

/** The lock of a process, as it leaves it when it is killed. */
async function leaveLock(owner: object | undefined): Promise<void> {
  await mkdir(`${path}.lock`);
  if (owner !== undefined) await writeFile(`${path}.owner`, JSON.stringify(owner));
}

test('guardProcess() lets one in, and the next one after it left', async () => {
  const first = await guardProcess(files, path);
  await expect(guardProcess(files, path)).rejects.toMatchObject({
    code: 'process-guard-held',
    details: { pid: process.pid },
  });
  await first[Symbol.asyncDispose]();
  await (await guardProcess(files, path))[Symbol.asyncDispose]();
});

test('guardProcess() keeps a second one out of a living one’s lock however old its files look', async () => {
  await leaveLock(await ownIdentity(files));
  await utimes(`${path}.lock`, new Date(0), new Date(0));
  await expect(guardProcess(files, path)).rejects.toMatchObject({ code: 'process-guard-held' });
});

const dead = [
  { name: 'a process that was killed', owner: { pid: 2 ** 22 + 1, startTicks: '1' } },
  { name: 'a process whose id another one has now', owner: { pid: process.pid, startTicks: '1' } },
  { name: 'a process before the last boot', owner: { bootId: 'another' } },
];
test.each(dead)('guardProcess() takes over from $name', async ({ owner }) => {
  await leaveLock({ ...(await ownIdentity(files)), ...owner });
  await utimes(`${path}.lock`, new Date('2099-01-01'), new Date('2099-01-01'));
  await (await guardProcess(files, path))[Symbol.asyncDispose]();
});

test('guardProcess() takes over from one that died before it said who it is', async () => {
  await leaveLock(undefined);
  await (await guardProcess(files, path))[Symbol.asyncDispose]();
});
