import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { withWorkDirectory } from './work-directory.ts';

const MIB = 1024 ** 2;
const OF_A_KILLED_PROCESS = '/dev/shm/cluster-backup-77-0123456789abcdef';
const OF_A_RUNNING_PROCESS = '/dev/shm/cluster-backup-78-0123456789abcdef';
const OTHERS = ['/dev/shm/cluster-backup-mine', '/dev/shm/cluster-backup-077-0123456789abcdef'];

const at = { base: '/dev/shm', fileBytes: 10 * MIB, pid: 79 };
const free = (bytes: number) => ({ freeBytes: () => Promise.resolve(bytes) });

describe('withWorkDirectory()', () => {
  test('deletes the decrypted data afterwards, also after an error', async () => {
    const files = new MemoryFiles();
    const ports = { files, streams: free(1024 * MIB) };
    const used: string[] = [];
    const use = async (directory: string): Promise<void> => {
      used.push(directory);
      await files.writeAtomic(`${directory}/state-etcd`, 'secret');
      if (used.length === 2) throw new Error('no etcd');
    };
    await withWorkDirectory(ports, at, use);
    await expect(withWorkDirectory(ports, at, use)).rejects.toThrow('no etcd');
    expect(new Set(used).size).toBe(2);
    for (const directory of used) {
      expect(directory).toMatch(/^\/dev\/shm\/cluster-backup-79-[0-9a-f]{16}$/);
      expect(await files.stat(directory)).toBeUndefined();
    }
  });

  test('deletes what killed processes left, and nothing else', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/proc/78');
    for (const directory of [OF_A_KILLED_PROCESS, OF_A_RUNNING_PROCESS, ...OTHERS]) {
      await files.makeDirectory(directory);
      await files.writeAtomic(`${directory}/state-etcd`, 'secret');
    }
    await withWorkDirectory({ files, streams: free(1024 * MIB) }, at, () => Promise.resolve());
    expect(await files.stat(OF_A_KILLED_PROCESS)).toBeUndefined();
    for (const kept of [OF_A_RUNNING_PROCESS, ...OTHERS]) expect(await files.stat(kept)).toBeDefined();
  });

  test.each([
    { freeBytes: 148 * MIB, isEnough: true },
    { freeBytes: 148 * MIB - 1, isEnough: false },
  ])('a file of 10 MiB with $freeBytes bytes of space: $isEnough', async ({ freeBytes, isEnough }) => {
    const files = new MemoryFiles();
    const run = withWorkDirectory({ files, streams: free(freeBytes) }, at, () => Promise.resolve('done'));
    if (isEnough) return expect(await run).toBe('done');
    await expect(run).rejects.toMatchObject({ code: 'backup-work-space' });
    expect(await files.list('/dev/shm')).toEqual([]);
  });

  test.each([
    { type: 'tmpfs', availableMib: 148, isEnough: true },
    { type: 'tmpfs', availableMib: 147, isEnough: false },
    { type: 'ext4', availableMib: 1, isEnough: true },
  ])(
    'a file of 10 MiB on $type with $availableMib MiB of memory left: $isEnough',
    async ({ type, availableMib, isEnough }) => {
      const files = new MemoryFiles();
      await files.makeDirectory('/proc/self');
      await files.writeAtomic('/proc/self/mountinfo', `29 1 0:30 / /dev/shm rw - ${type} none rw\n`);
      await files.writeAtomic('/proc/meminfo', `MemAvailable: ${availableMib * 1024} kB\n`);
      const ports = { files, streams: free(1024 * MIB) };
      const run = withWorkDirectory(ports, at, () => Promise.resolve('done'));
      if (isEnough) return expect(await run).toBe('done');
      await expect(run).rejects.toMatchObject({ code: 'backup-work-space' });
    },
  );
});
