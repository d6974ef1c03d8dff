import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { lstat, mkdtemp, readFile, readlink, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import { checkOutput, writeOutput } from './output-file.ts';

const files = new DiskFiles();
const exists = { code: 'app-file-exists' };
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'output-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});
const at = (name: string): string => join(directory, name);
const textAt = (name: string): Promise<string> => readFile(at(name), 'utf8');

describe('writeOutput()', () => {
  test('creates a file that only its owner can read, unless it has another mode', async () => {
    await writeOutput(files, { path: at('secret') }, 'new');
    await writeOutput(files, { path: at('public'), mode: 0o644 }, 'new');
    expect(await textAt('secret')).toBe('new');
    expect((await stat(at('secret'))).mode & 0o777).toBe(0o600);
    expect((await stat(at('public'))).mode & 0o777).toBe(0o644);
  });

  test('refuses a file with other content, and accepts one with the same content', async () => {
    await writeFile(at('file'), 'mine');
    await expect(writeOutput(files, { path: at('file') }, 'new')).rejects.toMatchObject(exists);
    await expect(checkOutput(files, { path: at('file') })).rejects.toMatchObject(exists);
    await writeOutput(files, { path: at('file') }, 'mine');
    expect(await textAt('file')).toBe('mine');
  });

  test('replaces an empty file, and what an earlier run has written', async () => {
    await writeFile(at('empty'), '');
    await writeFile(at('earlier'), 'facts 1');
    await writeFile(at('other'), 'mine');
    const isEarlier = (text: string): boolean => text.startsWith('facts');
    for (const name of ['empty', 'earlier']) {
      await checkOutput(files, { path: at(name), isEarlier });
      await writeOutput(files, { path: at(name), isEarlier }, 'facts 2');
      expect(await textAt(name)).toBe('facts 2');
    }
    await expect(writeOutput(files, { path: at('other'), isEarlier }, 'facts 2')).rejects.toMatchObject(
      exists,
    );
    expect(await textAt('other')).toBe('mine');
  });

  test('refuses a file that is too large to be read', async () => {
    await writeFile(at('large'), '');
    await truncate(at('large'), 2 ** 40);
    const file = { path: at('large'), isEarlier: () => true };
    await expect(checkOutput(files, file)).rejects.toMatchObject(exists);
    await expect(writeOutput(files, file, 'new')).rejects.toMatchObject(exists);
  });

  test('follows a symbolic link, which stays', async () => {
    await writeFile(at('file'), 'mine');
    await symlink('file', at('link'));
    await symlink('new', at('dangling'));
    await expect(writeOutput(files, { path: at('link') }, 'new')).rejects.toMatchObject(exists);
    await writeOutput(files, { path: at('link'), isEarlier: () => true }, 'new');
    await writeOutput(files, { path: at('dangling') }, 'new');
    expect(await Promise.all(['file', 'new'].map(textAt))).toEqual(['new', 'new']);
    expect(await Promise.all(['link', 'dangling'].map((name) => readlink(at(name))))).toEqual([
      'file',
      'new',
    ]);
  });

  test('writes into a FIFO and does not replace it', async () => {
    execFileSync('mkfifo', [at('fifo')]);
    await checkOutput(files, { path: at('fifo') });
    const [read] = await Promise.all([textAt('fifo'), writeOutput(files, { path: at('fifo') }, 'new')]);
    expect(read).toBe('new');
    expect((await lstat(at('fifo'))).isFIFO()).toBe(true);
  });

  test('refuses a directory', async () => {
    const refusal = { code: 'file-wrong-kind' };
    await expect(checkOutput(files, { path: directory })).rejects.toMatchObject(refusal);
    await expect(writeOutput(files, { path: directory }, 'new')).rejects.toMatchObject(refusal);
  });
});
