import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, MemoryFiles } from '../../../internal/testing/index.ts';
import { DiskError } from '../../disk/index.ts';
import { LOCKED_PATHS, noteWait, withLockedFiles } from './locked-files.ts';

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

describe('noteWait()', () => {
  const refused = (isLasting: boolean): DiskError =>
    new DiskError('disk-share-refused', 'asking', { details: { code: 'join-share-not-member', isLasting } });

  test.each([
    { name: 'nobody answers', error: new DiskError('disk-share-awaited', 'asking'), waits: true },
    { name: 'the TPM is busy', error: new Error('TPM_RC_RETRY'), waits: true },
    { name: 'somebody refuses, but proves no cluster', error: refused(false), waits: true },
    { name: 'the cluster refuses', error: refused(true), waits: false },
    { name: 'the TPM releases no share', error: new DiskError('disk-locked', 'unsealing'), waits: false },
  ])('an unconfirmed image is given up: $name', async ({ error, waits }) => {
    const files = new MemoryFiles();
    const { awaitsShare } = LOCKED_PATHS;
    const awaits = async (): Promise<boolean> => (await files.stat(awaitsShare)) !== undefined;
    await files.makeDirectory(directory);
    await noteWait(files, error);
    expect(await awaits()).toBe(waits);
    await noteWait(files, new DiskError('disk-share-awaited', 'asking'));
    await noteWait(files, error);
    expect(await awaits()).toBe(waits);
  });
});
