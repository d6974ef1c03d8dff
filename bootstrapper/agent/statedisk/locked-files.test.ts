import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, MemoryFiles } from '../../../internal/testing/index.ts';
import { LOCKED_PATHS, withLockedFiles } from './locked-files.ts';

const { directory, code } = LOCKED_PATHS;

describe('withLockedFiles()', () => {
  test('deletes the pipe for the code after the recovery', async () => {
    const ports = { files: new MemoryFiles(), log: createMemoryLogger().log };
    const use = async (): Promise<string> => {
      await ports.files.writeAtomic(code, '');
      return 'recovered';
    };
    expect(await withLockedFiles(ports, use)).toBe('recovered');
    expect(await ports.files.stat(directory)).toBeUndefined();
  });

  test('deletes it also when the agent stops, and never hides why', async () => {
    const files = new MemoryFiles();
    const { log, records } = createMemoryLogger();
    const stopped = new Error('the agent stops');
    const use = (): Promise<never> => Promise.reject(stopped);
    await expect(withLockedFiles({ files, log }, use)).rejects.toBe(stopped);
    expect(await files.stat(directory)).toBeUndefined();
    files.remove = () => Promise.reject(new Error('EBUSY'));
    await expect(withLockedFiles({ files, log }, use)).rejects.toBe(stopped);
    expect(records).toMatchObject([{ message: 'files of the locked disk not deleted' }]);
  });

  test('deletes the file that says that the agent waits for its share, at the path that units of an image know', async () => {
    const { awaitsShare } = LOCKED_PATHS;
    expect(awaitsShare).toBe('/run/cluster/locked-disk/awaits-share');
    const ports = { files: new MemoryFiles(), log: createMemoryLogger().log };
    await withLockedFiles(ports, () => ports.files.writeAtomic(awaitsShare, ''));
    expect(await ports.files.stat(awaitsShare)).toBeUndefined();
  });
});
