import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { temporaryDirectory } from '../../../internal/testing/index.ts';
import { refuseMemory, removeLeftovers } from './own-directory.ts';

const ended = `${spawnSync('true').pid}-ended`;
const running = `${process.pid}-running`;

async function createDirectories(parent: string): Promise<void> {
  for (const name of [ended, running, 'other']) await mkdir(join(parent, name));
  await writeFile(join(parent, ended, 'plain'), '');
}

test('removeLeftovers() deletes the directories of processes that have ended, and nothing else', async () => {
  await using directory = await temporaryDirectory();
  const parent = directory.path;
  await createDirectories(parent);
  await removeLeftovers(parent);
  expect(new Set(await readdir(parent))).toEqual(new Set([running, 'other']));
});

test('removeLeftovers() leaves the directories of other users alone', async () => {
  await using directory = await temporaryDirectory();
  const parent = directory.path;
  await createDirectories(parent);
  await removeLeftovers(parent, (process.getuid?.() ?? 0) + 1);
  expect(await readdir(parent)).toHaveLength(3);
});

test('refuseMemory() refuses a tmpfs, and says what to do', async () => {
  await expect(refuseMemory('/dev/shm')).rejects.toThrow('/dev/shm is in memory (tmpfs)');
});
