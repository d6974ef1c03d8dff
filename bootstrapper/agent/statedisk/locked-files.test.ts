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
});
