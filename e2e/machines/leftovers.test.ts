import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execArgv, execPath } from 'node:process';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ownDirectory, removeLeftovers } from './leftovers.ts';

const PREFIX = 'story-';
const MODULE = join(import.meta.dirname, 'leftovers.ts');

describe('removeLeftovers', () => {
  let parent = '';
  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), 'leftovers-'));
    for (const name of ['story-own', 'story-new', 'story-left', 'other']) await mkdir(join(parent, name));
    await ownDirectory(join(parent, 'story-own'));
    const script = `const { ownDirectory } = await import(${JSON.stringify(MODULE)});
      for (const name of ['story-left', 'other']) await ownDirectory(${JSON.stringify(parent)} + '/' + name);`;
    const child = spawn(execPath, [...execArgv, '--input-type=module', '--eval', script], {
      stdio: 'inherit',
    });
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
  afterEach(() => rm(parent, { recursive: true }));

  it('removes only directories of its kind whose owner has ended, after what is in them', async () => {
    const emptied: string[] = [];
    const there: string[] = [];
    await removeLeftovers(parent, PREFIX, async (directory) => {
      emptied.push(directory);
      there.push(...(await readdir(directory)));
    });
    expect(emptied).toEqual([join(parent, 'story-left')]);
    expect(there).toEqual(['owner.json']);
    expect((await readdir(parent)).toSorted()).toEqual(['other', 'story-new', 'story-own']);
  });

  it('keeps a directory that could not be emptied, for the next attempt', async () => {
    await expect(removeLeftovers(parent, PREFIX, () => Promise.reject(new Error('busy')))).rejects.toThrow(
      'busy',
    );
    expect(await readdir(parent)).toContain('story-left');
  });
});
