import { describe, expect, test } from '@jest/globals';
import { ExecError, type Command, type CommandResult } from '../../exec/index.ts';
import { FakeClock } from '../../testing/index.ts';
import type { HostPorts } from './host-ports.ts';
import { parseMountinfo } from '../../platform/index.ts';
import { hierarchiesFrom } from './cgroups.ts';
import { checkHost, commandsFor, controllersFrom, requireHost } from './check-host.ts';
import { hostRequirements, requiredPackages, vmRequirements } from './host-requirements.ts';

const signal = new AbortController().signal;
const UNIFIED = '31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n';

interface HostState {
  readonly user?: string;
  readonly missing?: readonly string[];
  readonly failing?: RegExp;
  readonly files?: Readonly<Record<string, string>>;
  readonly disk?: string;
}

/** A host whose programs return output from a table. A kernel probe that matches `failing` fails. */
function stubHost(state: HostState): { readonly host: HostPorts; readonly commands: string[] } {
  const commands: string[] = [];
  const files: Readonly<Record<string, string>> = {
    '/proc/self/mountinfo': UNIFIED,
    '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu io memory pids\n',
    '/usr/share/keyrings/debian-archive-keyring.gpg': '',
    '/data': '',
    ...state.files,
  };
  const run = async ({ argv }: Command): Promise<CommandResult> => {
    const line = argv.join(' ');
    commands.push(line);
    if (state.failing?.test(line) === true) throw new ExecError('exec-failed', { argv, outputTail: '' });
    const stdout =
      argv[0] === 'id'
        ? (state.user ?? '0')
        : argv[0] === 'df'
          ? `Type Avail\n${state.disk ?? `ext4 ${1e12}`}\n`
          : line.includes('command -v')
            ? (state.missing ?? []).join('\n')
            : '';
    return { exitCode: 0, stdout, stderr: '' };
  };
  const refuse = (): never => {
    throw new Error('preflight changes nothing');
  };
  const host: HostPorts = {
    clock: new FakeClock(),
    commands: { run },
    processes: { startDetached: refuse, runAttached: refuse, sendSignal: refuse },
    files: {
      read: async (path) => (files[path] === undefined ? undefined : new TextEncoder().encode(files[path])),
      stat: async (path) =>
        files[path] === undefined ? undefined : { kind: 'file', sizeBytes: 0, mode: 0, modifiedMs: 0 },
      list: async () => [],
      writeAtomic: refuse,
      createExclusive: refuse,
      makeDirectory: refuse,
      remove: refuse,
      rename: refuse,
      removeTemporary: refuse,
      sync: refuse,
    },
  };
  return { host, commands };
}

const check = async (state: HostState, directories: readonly string[] = ['/data/cluster']) =>
  checkHost(stubHost(state).host, { requirements: hostRequirements, directories, signal });

describe('checkHost()', () => {
  test('reports nothing on a host that meets all requirements', async () => {
    expect(await check({})).toEqual({ missing: [], commands: [] });
  });

  test('lists everything that is missing, with one command for all packages', async () => {
    const missing = ['mmdebstrap', 'swtpm', 'swtpm_setup', 'unshare', 'nsenter'];
    const { missing: lacks, commands } = await check({ missing, disk: `ext4 ${1024 ** 3}` });
    expect(lacks.map(({ name }) => name)).toEqual([
      'mmdebstrap',
      'nsenter',
      'swtpm',
      'swtpm_setup',
      'unshare',
      'disk space in /data (1.0 GiB free, 6.0 GiB required)',
    ]);
    expect(commands).toEqual([
      'apt-get install -y mmdebstrap swtpm swtpm-tools util-linux',
      'free space in /data',
    ]);
  });

  test('names what virtual machines need, and containers do not, with the commands that install it', async () => {
    const missing = ['qemu-system-x86_64', 'dnsmasq', 'mmdebstrap'];
    const { host } = stubHost({ missing, files: { '/usr/share/OVMF/OVMF_VARS_4M.fd': '' } });
    const options = { requirements: vmRequirements, directories: ['/data'], signal };
    const { missing: lacks, commands } = await checkHost(host, options);
    expect(lacks.map(({ name }) => name)).toEqual([
      'dnsmasq',
      'qemu-system-x86_64',
      '/usr/share/OVMF/OVMF_CODE_4M.fd',
    ]);
    expect(commands).toEqual(['apt-get install -y dnsmasq-base ovmf qemu-system-x86']);
  });

  test('refuses virtual machines on another processor than that of images', async () => {
    const firmware = { '/usr/share/OVMF/OVMF_CODE_4M.fd': '', '/usr/share/OVMF/OVMF_VARS_4M.fd': '' };
    const { host } = stubHost({ failing: /uname -m/, files: firmware });
    const options = { requirements: vmRequirements, directories: ['/data'], signal };
    const { missing: lacks } = await checkHost(host, options);
    expect(lacks.map(({ fix }) => fix)).toEqual(['leave --machines out: containers run on this machine']);
  });

  test('does not probe the kernel without root', async () => {
    const { host, commands } = stubHost({ user: '1000', failing: /^unshare/ });
    const report = await checkHost(host, { requirements: hostRequirements, directories: ['/data'], signal });
    expect(report.missing).toEqual([{ kind: 'user', name: 'root', fix: 'run the command with sudo' }]);
    expect(commands.filter((line) => line.startsWith('unshare'))).toEqual([]);
  });

  test.each(hostRequirements.kernel.map(({ feature, probe, fix }) => ({ feature, probe, fix })))(
    'reports $feature when its probe fails',
    async ({ feature, probe, fix }) => {
      const escaped = probe.join(' ').replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      const { missing: lacks } = await check({ failing: new RegExp(`^${escaped}$`) });
      expect(lacks).toEqual([{ kind: 'kernel', name: feature, fix }]);
    },
  );

  const refused = [
    {
      name: 'a cgroup controller that is disabled',
      state: { files: { '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu pids' } },
      want: 'cgroup controller memory',
    },
    {
      name: 'v1 controllers without the hierarchy that systemd needs in a container',
      state: {
        files: {
          '/proc/self/mountinfo': ['cpu', 'cpuset', 'memory', 'pids']
            .map((each, at) => `${at} 1 0:${at} / /sys/fs/cgroup/${each} rw - cgroup cgroup rw,${each}`)
            .join('\n'),
        },
      },
      want: 'cgroup hierarchy name=systemd',
    },
    {
      name: 'a data directory on an overlay',
      state: { disk: `overlay ${1e12}` },
      want: 'disk for /data/cluster',
    },
    {
      name: 'a keyring that does not exist',
      state: { missing: [] },
      requirements: { ...hostRequirements, files: [{ path: '/nowhere', package: 'p' }] },
      want: '/nowhere',
    },
  ];
  test.each(refused)('checkHost() reports $name', async ({ state, requirements, want }) => {
    const { host } = stubHost(state);
    const report = await checkHost(host, {
      requirements: requirements ?? hostRequirements,
      directories: ['/data/cluster'],
      signal,
    });
    expect(report.missing.map(({ name }) => name)).toEqual([want]);
  });

  test.each(['/data/a:b', '/data/a,b', '/data/a b', '/data/a\\b'])(
    'checkHost() refuses %j, which mount options cannot contain',
    async (directory) => {
      const { missing: lacks } = await check({}, [directory]);
      expect(lacks).toMatchObject([{ kind: 'folder' }]);
    },
  );
});

test('requireHost() throws an error with all missing requirements and the commands to run', async () => {
  const wanted = requireHost(stubHost({ missing: ['swtpm'] }).host, {
    requirements: hostRequirements,
    directories: ['/data'],
    signal,
  });
  await expect(wanted).rejects.toMatchObject({
    code: 'localmachines-preflight',
    exit: 'preflight',
    fix: 'Run: apt-get install -y swtpm. Then run the same command again.',
  });
});

test('commandsFor() returns each command once', () => {
  const lack = { kind: 'kernel', name: 'a', fix: 'modprobe x' } as const;
  expect(commandsFor([lack, { ...lack, name: 'b' }])).toEqual(['modprobe x']);
});

test('controllersFrom() combines the controllers of v1 and v2 hierarchies', () => {
  const mounts = '1 0 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n';
  expect([...controllersFrom(hierarchiesFrom(parseMountinfo(mounts)), 'hugetlb\n')]).toEqual([
    'cpu',
    'cpuacct',
    'hugetlb',
  ]);
});

test('requiredPackages() returns each package once, sorted, for a set-up script', () => {
  const packages = requiredPackages(hostRequirements);
  expect(packages).toContain('systemd-container');
  expect(packages).toEqual([...new Set(packages)].sort());
});
