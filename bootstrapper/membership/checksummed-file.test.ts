import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import { ChecksummedFile } from './checksummed-file.ts';

let directory: string;
let file: ChecksummedFile<{ readonly nodeId: string }>;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'checked-'));
  file = new ChecksummedFile(new DiskFiles(), join(directory, 'value.json'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('ChecksummedFile', () => {
  test('load() returns what save() wrote, and undefined before', async () => {
    expect(await file.load()).toBeUndefined();
    await file.save({ nodeId: 'n' });
    expect(await file.load()).toEqual({ nodeId: 'n' });
  });

  test('load() refuses the file if any byte is changed or cut off, and does not modify it', async () => {
    await file.save({ nodeId: 'n' });
    const good = await readFile(file.path);
    for (let at = 0; at < good.length - 1; at++) {
      for (const bad of [
        Buffer.concat([good.subarray(0, at), Buffer.from([(good[at] ?? 0) ^ 1]), good.subarray(at + 1)]),
        good.subarray(0, at),
      ]) {
        await writeFile(file.path, bad);
        await expect(file.load()).rejects.toMatchObject({ code: 'membership-damaged' });
        expect(await readFile(file.path)).toEqual(bad);
      }
    }
  });
});
