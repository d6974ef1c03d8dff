import { parseMountinfo } from '../../platform/index.ts';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ExecaRunner, HostProcesses, type CommandResult } from '../../exec/index.ts';
import { FakeClock, MemoryFiles, temporaryDirectory } from '../../testing/index.ts';
import {
  hierarchiesFrom,
  inScope,
  joinCgroupsOf,
  removeScope,
  thawScope,
  type CgroupLayout,
} from './cgroups.ts';

const HYBRID = [
  '30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755',
  '31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate',
  '32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd',
  '33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct',
  '34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,release_agent=/x',
  '35 30 0:31 / /elsewhere rw - cgroup cgroup rw,pids',
].join('\n');
const UNIFIED = '31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot';

const layout = (mounts: string, managed: boolean): CgroupLayout => ({
  hierarchies: hierarchiesFrom(parseMountinfo(mounts)),
  managed,
});

describe('hierarchiesFrom()', () => {
  test('names v1 hierarchies as /proc/PID/cgroup does, and v2 with an empty name', () => {
    expect(hierarchiesFrom(parseMountinfo(HYBRID))).toEqual([
      { point: '/sys/fs/cgroup/unified', version: 2, id: '' },
      { point: '/sys/fs/cgroup/systemd', version: 1, id: 'name=systemd' },
      { point: '/sys/fs/cgroup/cpu,cpuacct', version: 1, id: 'cpu,cpuacct' },
      { point: '/sys/fs/cgroup/memory', version: 1, id: 'memory' },
    ]);
  });

  test('finds the single v2 hierarchy of a current distribution', () => {
    expect(hierarchiesFrom(parseMountinfo(UNIFIED))).toEqual([
      { point: '/sys/fs/cgroup', version: 2, id: '' },
    ]);
  });
});

describe('inScope()', () => {
  const options = { launch: '/c/launch', scope: 'clu1-n1.scope', log: '/c/log' };

  test('joins its own directory in each hierarchy when systemd does not manage them', () => {
    expect(inScope(layout(UNIFIED, false), options, ['true'])).toEqual([
      'sh',
      '/c/launch',
      '-l',
      '/c/log',
      '-c',
      '/sys/fs/cgroup/clustermini.slice/clu1-n1.scope',
      '--',
      'true',
    ]);
    const joined = inScope(layout(HYBRID, false), options, ['true']).filter((word) => word === '-c');
    expect(joined).toHaveLength(4);
  });

  test('requests a delegated scope from systemd when systemd manages the hierarchies', () => {
    const argv = inScope(layout(UNIFIED, true), options, ['true']);
    expect(argv).toContain('systemd-run');
    expect(argv).toContain('--unit=clu1-n1.scope');
    expect(argv).toContain('--property=Delegate=yes');
    expect(argv).not.toContain('-c');
    expect(argv.at(-1)).toBe('true');
  });
});

describe('thawScope()', () => {
  test('thaws all frozen cgroups below a scope, and no others', async () => {
    await using directory = await temporaryDirectory();
    const inner = join(directory.path, 'clustermini.slice/clu1-n1.scope/kubepods/pod');
    const other = join(directory.path, 'clustermini.slice/clu2-n1.scope');
    for (const each of [inner, other]) {
      await mkdir(each, { recursive: true });
      await writeFile(join(each, 'freezer.state'), 'FROZEN\n');
    }
    const commands = new ExecaRunner({ path: '/usr/bin:/bin' });
    const processes = new HostProcesses({ path: '' });
    const host = { files: new MemoryFiles(), commands, clock: new FakeClock(), processes };
    const frozen = { point: directory.path, version: 1, id: 'freezer' } as const;
    const { signal } = new AbortController();
    await thawScope(host, { ...layout(UNIFIED, false), hierarchies: [frozen] }, 'clu1-n1.scope', signal);
    expect(await readFile(join(inner, 'freezer.state'), 'utf8')).toBe('THAWED\n');
    expect(await readFile(join(other, 'freezer.state'), 'utf8')).toBe('FROZEN\n');
  });
});

describe('removeScope()', () => {
  const scope = 'clu1-n1.scope';
  const directory = `/sys/fs/cgroup/clustermini.slice/${scope}`;

  /** A kernel that keeps the cgroup busy for some attempts. */
  async function start(busyFor: number) {
    const files = new MemoryFiles();
    await files.makeDirectory(directory);
    const clock = new FakeClock();
    let tries = 0;
    const run = async (): Promise<CommandResult> => {
      const isFree = ++tries > busyFor;
      if (isFree) await files.remove(directory);
      return { exitCode: isFree ? 0 : 1, stdout: '', stderr: '' };
    };
    const processes = new HostProcesses({ path: '' });
    const { signal } = new AbortController();
    const host = { files, commands: { run }, clock, processes };
    const removing = removeScope(host, layout(UNIFIED, false), scope, signal);
    return { files, clock, removing, tries: () => tries };
  }

  test('tries again while the kernel keeps the cgroup busy', async () => {
    const { files, clock, removing, tries } = await start(2);
    await clock.advance(60);
    await clock.advance(60);
    await removing;
    expect([tries(), await files.stat(directory)]).toEqual([3, undefined]);
  });

  test('fails when the kernel never releases the cgroup', async () => {
    const { clock, removing } = await start(Number.POSITIVE_INFINITY);
    const refused = expect(removing).rejects.toMatchObject({ code: 'localmachines-not-removed' });
    for (let second = 0; second < 21; second++) await clock.advance(1_000);
    await refused;
  });
});

test('joinCgroupsOf() joins the cgroups of a process in each hierarchy', () => {
  const cgroups = '3:memory:/clustermini.slice/clu1-n1.scope/init.scope\n1:name=systemd:/\n';
  expect(joinCgroupsOf(layout(HYBRID, false), cgroups)).toEqual([
    '-c',
    '/sys/fs/cgroup/systemd',
    '-c',
    '/sys/fs/cgroup/memory/clustermini.slice/clu1-n1.scope/init.scope',
  ]);
});
