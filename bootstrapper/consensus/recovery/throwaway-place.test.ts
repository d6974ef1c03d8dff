import { describe, expect, test } from '@jest/globals';
import type { Command } from '../../../internal/exec/index.ts';
import { createMemoryLogger, MemoryFiles } from '../../../internal/testing/index.ts';
import { removeThrowawayMemory, withThrowawayPlace, type ThrowawayPlace } from './throwaway-place.ts';

const { signal } = new AbortController();
const MIB = 1024 ** 2;
const ROOT = '29 1 8:1 / / rw - ext4 /dev/sda1 rw';
const MOUNT_POINT = '/run/cluster/backup-proof/memory';
const settings = {
  stateDir: '/var/lib/cluster',
  memoryDirectory: '/run/cluster/backup-proof',
  diskDirectory: '/var/lib/cluster/backups/work',
  neededBytes: 300 * MIB,
};

/** A machine whose mounts change with `mount` and `umount`. */
async function createMachine(availableBytes: number | undefined, mounts: readonly string[] = [ROOT]) {
  const files = new MemoryFiles();
  const mounted = [...mounts];
  const commands: string[] = [];
  const put = async (path: string, text: string): Promise<void> => {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, text);
  };
  const write = () => put('/proc/self/mountinfo', `${mounted.join('\n')}\n`);
  await write();
  if (availableBytes !== undefined)
    await put(
      '/proc/meminfo',
      `MemTotal: 9999999 kB\nMemAvailable: ${Math.floor(availableBytes / 1024)} kB\n`,
    );
  const run = async ({ argv }: Command) => {
    commands.push(argv.join(' '));
    const point = argv.at(-1) ?? '';
    if (argv[0] === 'mount') mounted.push(`${mounted.length + 30} 29 0:50 / ${point} rw - tmpfs tmpfs rw`);
    else
      mounted.splice(
        mounted.findLastIndex((line) => line.includes(` ${point} `)),
        1,
      );
    await write();
    return { exitCode: 0, stdout: '', stderr: '' };
  };
  const { log, records: lines } = createMemoryLogger();
  return { files, commands: { run }, ran: commands, log, lines, put };
}

const placeOf = async (machine: Awaited<ReturnType<typeof createMachine>>): Promise<ThrowawayPlace> =>
  withThrowawayPlace(machine, settings, (place) => Promise.resolve(place), signal);

describe('withThrowawayPlace()', () => {
  test('mounts a file system in memory of the needed size, and leaves neither files nor the mount', async () => {
    const machine = await createMachine(812 * MIB);
    const { files } = machine;
    const seen = await withThrowawayPlace(
      machine,
      settings,
      async (place) => {
        expect(machine.ran).toEqual([
          `mount -t tmpfs -o size=${300 * MIB},mode=0711,nodev,nosuid,noexec cluster-backup-proof ${MOUNT_POINT}`,
        ]);
        await files.writeAtomic(`${place.snapshots}/state.snapshot`, 'secret');
        return place;
      },
      signal,
    );
    expect(seen).toEqual({
      ...{ kind: 'memory', memoryBytes: 300 * MIB },
      snapshots: `${MOUNT_POINT}/snapshots`,
      restored: `${MOUNT_POINT}/restored`,
    });
    expect(machine.ran.slice(1)).toEqual([`umount --lazy ${MOUNT_POINT}`]);
    expect(await files.stat(settings.memoryDirectory)).toBeUndefined();
  });

  test('leaves nothing in memory after a proof that failed', async () => {
    const machine = await createMachine(812 * MIB);
    const fail = () => Promise.reject(new Error('no etcd'));
    await expect(withThrowawayPlace(machine, settings, fail, signal)).rejects.toThrow('no etcd');
    expect(machine.ran.slice(1)).toEqual([`umount --lazy ${MOUNT_POINT}`]);
  });

  test('uses the state disk, and says so, if the kernel refuses to mount a file system', async () => {
    const machine = await createMachine(812 * MIB);
    const refuse = { run: () => Promise.reject(new Error('mount: permission denied')) };
    const place = await placeOf({ ...machine, commands: refuse });
    expect([place.kind, place.snapshots]).toEqual(['clear', settings.diskDirectory]);
    expect(JSON.stringify(machine.lines)).toContain('no memory could be mounted');
    expect(await machine.files.stat(settings.memoryDirectory)).toBeUndefined();
  });

  test.each([
    { name: 'enough memory with 512 MiB of reserve', availableBytes: 812 * MIB, want: 'memory' },
    { name: 'too little memory', availableBytes: 812 * MIB - 1024, want: 'clear' },
    { name: 'a kernel that does not tell its memory', availableBytes: undefined, want: 'clear' },
  ])('with $name uses the place "$want"', async ({ availableBytes, want }) => {
    const machine = await createMachine(availableBytes);
    expect((await placeOf(machine)).kind).toBe(want);
    expect(JSON.stringify(machine.lines).includes('uses the unencrypted state disk')).toBe(want === 'clear');
  });

  test('uses the state disk if it is encrypted, no matter how much memory is free', async () => {
    const machine = await createMachine(9000 * MIB, [
      ROOT,
      '30 29 253:0 / /var/lib/cluster rw - ext4 /dev/dm-0 rw',
    ]);
    await machine.put('/sys/dev/block/253:0/dm/uuid', 'CRYPT-LUKS2-0123-cluster\n');
    expect(await placeOf(machine)).toEqual({
      ...{ kind: 'encrypted', memoryBytes: 0 },
      ...{ snapshots: settings.diskDirectory, restored: undefined },
    });
    expect(machine.ran).toEqual([]);
  });
});

test('removeThrowawayMemory() deletes the files before it unmounts, and removes mounts on top of one another', async () => {
  const mount = `40 29 0:50 / ${MOUNT_POINT} rw - tmpfs tmpfs rw`;
  const machine = await createMachine(0, [ROOT, mount, `41 40 0:51 / ${MOUNT_POINT} rw - tmpfs tmpfs rw`]);
  await machine.put(`${MOUNT_POINT}/snapshots/state.snapshot`, 'secret');
  const found: unknown[] = [];
  const commands = {
    run: async (command: Command) => {
      found.push(await machine.files.list(MOUNT_POINT));
      return machine.commands.run(command);
    },
  };
  await removeThrowawayMemory({ files: machine.files, commands }, settings.memoryDirectory, signal);
  expect(found).toEqual([[], []]);
  expect(await machine.files.stat(settings.memoryDirectory)).toBeUndefined();
});
