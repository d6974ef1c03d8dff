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
  test('does not change for one machine', async () => {
    await up('/a', 1);
    expect(await limit()).toBe(128);
    expect(await record()).toBeUndefined();
  });

  test('is raised for five machines, and restored after their removal', async () => {
    await up('/a', 5);
    expect(await limit()).toBe(1024);
    await down('/a');
    expect(await limit()).toBe(128);
    expect(await record()).toBeUndefined();
  });

  test('is high enough for all clusters together, and is restored when the last large cluster is removed', async () => {
    await up('/a', 5);
    await up('/b', 10);
    expect(await limit()).toBe(1920);
    await down('/a');
    expect(await limit()).toBe(1920);
    await down('/b');
    expect(await limit()).toBe(128);
  });

  test('is not restored when it was high enough without a change', async () => {
    await setLimit(8192);
    await up('/a', 5);
    expect(await record()).toBeUndefined();
    await down('/a');
    expect(await limit()).toBe(8192);
  });

  test('is restored after a crash before or after it was raised', async () => {
    // State after a crash between both steps: the record is written, but the limit is not raised.
    isReadOnly = true;
    await expect(up('/a', 5)).rejects.toMatchObject({ code: 'localmachines-preflight' });
    expect(await record()).toBeDefined();
    isReadOnly = false;
    await raiseInotifyLimit(host, { directory: '/a', machines: 5, signal });
    expect(await limit()).toBe(1024);
    await raiseInotifyLimit(host, { directory: '/a', machines: 5, signal });
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test("is never set below the kernel's default, whatever its record contains", async () => {
    await files.writeAtomic(
      `${CLAIMS}/inotify.json`,
      JSON.stringify({ version: 1, before: 1, raised: 1024, needs: {} }),
    );
    await setLimit(1024);
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('stays when another program has changed it in the meantime', async () => {
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

  test('is not kept for a cluster that no longer exists', async () => {
    await up('/gone', 20);
    await files.remove(`${CLAIMS}/clu${numbers}`);
    await up('/a', 2);
    await down('/a');
    expect(await limit()).toBe(128);
  });

  test('fails with the command to run when the limit cannot be set', async () => {
    isReadOnly = true;
    await expect(up('/a', 5)).rejects.toMatchObject({
      code: 'localmachines-preflight',
      fix: expect.stringContaining('sysctl -w fs.inotify.max_user_instances=1024'),
    });
  });
});
