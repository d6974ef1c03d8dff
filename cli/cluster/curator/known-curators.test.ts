import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { readKnownCurators, readSeenEpoch, saveKnownCurators } from './known-curators.ts';

const PATH = '/curators.json';
const listed = (...endpoints: readonly string[]) => endpoints.map((curatorEndpoint) => ({ curatorEndpoint }));

describe('saveKnownCurators()', () => {
  test('keeps the highest epoch when a curator that missed a recovery responds', async () => {
    const files = new MemoryFiles();
    await saveKnownCurators(files, PATH, { epoch: 3n, directory: listed('192.0.2.1:9091') });
    await saveKnownCurators(files, PATH, { epoch: 2n, directory: listed('192.0.2.2:9091') });
    expect(await readSeenEpoch(files, PATH)).toBe(3);
    expect(await readKnownCurators(files, PATH)).toEqual(['192.0.2.2:9091']);
  });

  test('keeps the curators when a directory is empty, and saves the epoch', async () => {
    const files = new MemoryFiles();
    await saveKnownCurators(files, PATH, { epoch: 1n, directory: listed('192.0.2.1:9091') });
    await saveKnownCurators(files, PATH, { epoch: 2n, directory: [] });
    expect(await readSeenEpoch(files, PATH)).toBe(2);
    expect(await readKnownCurators(files, PATH)).toEqual(['192.0.2.1:9091']);
  });

  test('reads files without an epoch, and damaged ones, as epoch 1', async () => {
    const files = new MemoryFiles();
    await files.writeAtomic(PATH, '{"version":1,"endpoints":["192.0.2.1:9091"]}');
    expect([await readSeenEpoch(files, PATH), await readKnownCurators(files, PATH)]).toEqual([
      1,
      ['192.0.2.1:9091'],
    ]);
    await files.writeAtomic(PATH, 'no JSON');
    expect(await readSeenEpoch(files, PATH)).toBe(1);
  });
});
