import { beforeEach, describe, expect, test } from '@jest/globals';
import { FakeClock, FakeCommands, MemoryFiles } from '../../testing/index.ts';
import type { HostPorts } from './host-ports.ts';
import { raiseInotifyLimit, restoreInotifyLimit } from './inotify-limit.ts';

const LIMIT = '/proc/sys/fs/inotify/max_user_instances';
const CLAIMS = '/var/lib/cluster-mini';
const { signal } = new AbortController();

let files: MemoryFiles;
let host: HostPorts;
let isReadOnly: boolean;
beforeEach(async () => {
  files = new MemoryFiles();
  isReadOnly = false;
  await files.makeDirectory('/proc/sys/fs/inotify');
  await files.makeDirectory(CLAIMS);
  await setLimit(128);
  const refuse = (): never => {
    throw new Error('not part of this test');
  };
  const commands = new FakeCommands();
  host = {
    files,
    clock: new FakeClock(),
    processes: { startDetached: refuse, runAttached: refuse, sendSignal: refuse },
    commands: Object.assign(commands, {
      run: async ({ argv }: { readonly argv: readonly string[] }) => {
        if (isReadOnly) throw new Error('Read-only file system');
        await setLimit(Number(argv.at(-1)));
        return { stdout: '', stderr: '', exitCode: 0 };
      },
    }),
  };
});

const setLimit = (limit: number) => files.writeAtomic(LIMIT, `${limit}\n`);
const limit = async (): Promise<number> =>
  Number(Buffer.from((await files.read(LIMIT, 100)) ?? '').toString());
const record = () => files.read(`${CLAIMS}/inotify.json`, 10_000);
let numbers = 0;
async function up(directory: string, machines: number): Promise<void> {
  await files.writeAtomic(`${CLAIMS}/clu${++numbers}`, directory);
  await raiseInotifyLimit(host, { directory, machines, signal });
}
const down = (directory: string) => restoreInotifyLimit(host, { directory, signal });

describe('the limit of inotify instances', () => {
  test('stays as it is for one machine', async () => {
    await up('/a', 1);
    expect(await limit()).toBe(128);
    expect(await record()).toBeUndefined();
  });

  test('is raised for five, and put back when they are gone', async () => {
    await up('/a', 5);
    expect(await limit()).toBe(1024);
    await down('/a');
    expect(await limit()).toBe(128);
    expect(await record()).toBeUndefined();
  });

  test('is as high as all clusters need it, and goes back with the last that does', async () => {
    await up('/a', 5);
    await up('/b', 10);
    expect(await limit()).toBe(1920);
    await down('/a');
    expect(await limit()).toBe(1920);
    await down('/b');
    expect(await limit()).toBe(128);
  });

  test('that is high enough is nobody’s to put back', async () => {
    await setLimit(8192);
    await up('/a', 5);
    expect(await record()).toBeUndefined();
    await down('/a');
    expect(await limit()).toBe(8192);
  });

  test('goes back to what it was after a crash before or after it was raised', async () => {
    isReadOnly = true; // the record is there, the limit is not raised: as after a crash between the two
    await expect(up('/a', 5)).rejects.toMatchObject({ code: 'localmachines-preflight' });
    expect(await record()).toBeDefined();
    isReadOnly = false;
    await raiseInotifyLimit(host, { directory: '/a', machines: 5, signal });
    expect(await limit()).toBe(1024);
    await raiseInotifyLimit(host, { directory: '/a', machines: 5, signal });
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('never goes below the default of the kernel, whatever its record says', async () => {
    await files.writeAtomic(
      `${CLAIMS}/inotify.json`,
      JSON.stringify({ version: 1, before: 1, raised: 1024, needs: {} }),
    );
    await setLimit(1024);
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('that somebody else has changed meanwhile stays', async () => {
    await up('/a', 5);
    await setLimit(4096);
    await down('/a');
    expect(await limit()).toBe(4096);
    expect(await record()).toBeUndefined();
  });

  test('is raised again after the host has restarted', async () => {
    await up('/a', 5);
    await setLimit(128);
    await raiseInotifyLimit(host, { directory: '/a', machines: 5, signal });
    expect(await limit()).toBe(1024);
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('is not kept up for a cluster that is not there any more', async () => {
    await up('/gone', 20);
    await files.remove(`${CLAIMS}/clu${numbers}`);
    await up('/a', 2);
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('that cannot be set is said with the command that does it', async () => {
    isReadOnly = true;
    await expect(up('/a', 5)).rejects.toMatchObject({
      code: 'localmachines-preflight',
      fix: expect.stringContaining('sysctl -w fs.inotify.max_user_instances=1024'),
    });
  });
});
