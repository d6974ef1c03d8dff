import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { chmod, chown, mkdir, readdir, rm, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { createCliHarness, type CliHarness } from './fake-cli.ts';

let cli: CliHarness;
let cache: string;
beforeEach(async () => {
  cli = await createCliHarness();
  cache = join(cli.root, 'home/.cache');
});
afterEach(async () => {
  await cli[Symbol.asyncDispose]();
});

/** The files of compiled code that a run of the program leaves in a directory. */
async function compiledIn(directory: string): Promise<readonly string[]> {
  expect(await cli.run(['help', 'exit-codes'])).toMatchObject({ code: 0, err: '' });
  return readdir(directory, { recursive: true }).catch(() => []);
}

describe('compiled code', () => {
  test('is kept in the cache of the user, for the next start', async () => {
    const kept = await compiledIn(join(cache, 'cluster/compiled'));
    expect(kept.length).toBeGreaterThan(10);
  });

  test('is not kept in a directory that another user can write', async () => {
    await chmod(cache, 0o777);
    expect(await compiledIn(join(cache, 'cluster'))).toEqual([]);
    await chmod(cache, 0o700);
    await mkdir(join(cache, 'cluster/compiled'), { recursive: true });
    await chmod(join(cache, 'cluster/compiled'), 0o770);
    expect(await compiledIn(join(cache, 'cluster/compiled'))).toEqual([]);
  });

  test('is not kept behind a symbolic link', async () => {
    const elsewhere = join(cli.root, 'elsewhere');
    await mkdir(elsewhere, { mode: 0o700 });
    await symlink(elsewhere, join(cache, 'cluster'));
    expect(await compiledIn(elsewhere)).toEqual([]);
  });

  test('is kept in a cache directory that did not exist', async () => {
    await rm(cache, { recursive: true });
    expect((await compiledIn(join(cache, 'cluster/compiled'))).length).toBeGreaterThan(10);
    expect((await stat(cache)).mode & 0o777).toBe(0o700);
  });

  test('makes no cache directory in the home directory of another user', async () => {
    await rm(cache, { recursive: true });
    await chown(join(cache, '..'), 1000, 1000);
    expect(await compiledIn(join(cache, '..'))).toEqual([]);
  });
});
