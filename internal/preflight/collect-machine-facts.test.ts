import { createServer } from 'node:net';
import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import type { Clock } from '../clock/index.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { FakeCommands } from '../testing/host/fake-commands.ts';
import { MemoryFiles } from '../testing/host/memory-files.ts';
import { collectMachineFacts, type CollectOptions } from './index.ts';

const never = new AbortController().signal;

async function disk(files: Readonly<Record<string, string>>): Promise<MemoryFiles> {
  const memory = new MemoryFiles();
  for (const [path, text] of Object.entries(files)) {
    await memory.makeDirectory(path.slice(0, path.lastIndexOf('/')) || '/');
    await memory.writeAtomic(path, text);
  }
  return memory;
}

const options: CollectOptions = {
  nodeName: 'no-such-name.invalid',
  configuredAddress: undefined,
  families: [],
  needsWireguard: false,
  neededBytes: { '/var/lib/cluster': 5 },
  includesBundle: true,
  allowsCgroupV1: false,
  hasStateDisk: true,
  isNode: true,
  callerClockMs: undefined,
  mayWriteTestFiles: false,
  signal: never,
};

const collect = (
  files: MemoryFiles,
  more: Partial<CollectOptions> = {},
  commands?: FakeCommands,
  clock: Clock = new FakeClock(),
) =>
  collectMachineFacts(
    {
      ...{ files, clock, commands },
      machine: { addresses: () => ['192.0.2.7'] },
      freeBytes: async (path) => (path === '/var' ? 7 : 0),
    },
    { ...options, ...more },
  );

const V2 = {
  '/proc/sys/kernel/osrelease': '6.1.0\n',
  '/proc/sys/net/ipv4/ip_forward': '1\n',
  '/proc/sys/net/bridge/bridge-nf-call-iptables': '0\n',
  '/proc/filesystems': 'nodev\tsysfs\nnodev\toverlay\n\text4\n',
  '/proc/meminfo': 'MemTotal:        2048 kB\n',
  '/proc/cpuinfo': 'processor\t: 0\n\nprocessor\t: 1\n',
  '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu memory pids\n',
  '/usr/sbin/ip': '',
  '/usr/sbin/mkfs.ext4': '',
  '/var/log/x': '',
};

describe('collectMachineFacts()', () => {
  test('reads the facts from the kernel and the disk', async () => {
    const facts = await collect(await disk(V2));
    expect(facts).toMatchObject({
      kernelRelease: '6.1.0',
      modules: new Set(['overlay', 'br_netfilter']),
      sysctls: {
        'net.ipv4.ip_forward': '1',
        'net.bridge.bridge-nf-call-iptables': '0',
        'net.bridge.bridge-nf-call-ip6tables': undefined,
      },
      cgroup: { version: 2, controllers: ['cpu', 'cpuset', 'memory', 'pids'] },
      memoryBytes: 2048 * 1024,
      processors: 2,
      ports: undefined,
      addresses: ['192.0.2.7'],
      nameResolvesTo: [],
      // The nearest existing parent directory is measured.
      diskSpace: [{ directory: '/var/lib/cluster', freeBytes: 7, neededBytes: 5 }],
      clockSync: 'unknown',
    });
    expect([facts.programs['ip'], facts.programs['conntrack']]).toEqual(['/usr/sbin/ip', undefined]);
    expect([facts.programs['mkfs.ext4'], facts.programs['cryptsetup']]).toEqual([
      '/usr/sbin/mkfs.ext4',
      undefined,
    ]);
  });

  test('reports the enabled controllers of cgroup v1', async () => {
    const cgroups = '#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t2\t1\nmemory\t0\t1\t0\n';
    const { cgroup } = await collect(await disk({ '/proc/cgroups': cgroups }));
    expect(cgroup).toEqual({ version: 1, controllers: ['cpu'] });
  });

  test('prefers the name servers of systemd-resolved to /etc/resolv.conf', async () => {
    const files = { '/etc/resolv.conf': 'nameserver 127.0.0.53\n' };
    expect((await collect(await disk(files))).resolvConf).toContain('127.0.0.53');
    const resolved = { ...files, '/run/systemd/resolve/resolv.conf': 'nameserver 192.0.2.1\n' };
    expect((await collect(await disk(resolved))).resolvConf).toBe('nameserver 192.0.2.1\n');
  });

  test.each([
    { said: 'yes\n', want: 'yes' },
    { said: 'no\n', want: 'no' },
    { said: { exitCode: 1, output: 'no bus' }, want: 'unknown' },
  ])('uses the report of the time service ($want)', async ({ said, want }) => {
    const commands = new FakeCommands(() => said);
    expect((await collect(await disk({}), {}, commands)).clockSync).toBe(want);
  });

  test('finds a read-only file system in the list of mounts if it may not write', async () => {
    const mounts = '20 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 20 8:2 / /opt rw - xfs /dev/sdb1 ro\n';
    const { writableDirectories } = await collect(await disk({ '/proc/self/mountinfo': mounts }));
    const problem = 'file system is read-only: /dev/sdb1 (xfs) on /opt';
    expect(writableDirectories.filter(({ problem: each }) => each !== undefined)).toEqual([
      { path: '/opt/cluster', problem },
      { path: '/opt/cni/bin', problem },
    ]);
  });

  test('leaves no files, with and without permission to write test files', async () => {
    for (const writesProbes of [false, true]) {
      const files = await disk(V2);
      const before = await files.list('/');
      const { writableDirectories: written } = await collect(files, { mayWriteTestFiles: writesProbes });
      expect(written.filter(({ problem }) => problem !== undefined)).toEqual([]);
      expect(await files.list('/')).toEqual(before);
      expect(await files.list('/opt')).toEqual([]);
    }
  });

  /** Another program holds one of our ports. It releases the port when the collector pauses, or never. */
  async function withSquatter(letsGo: boolean, host = '127.0.0.1'): Promise<string | undefined> {
    const squatter = createServer();
    squatter.listen({ port: 9093, host, ipv6Only: true });
    await once(squatter, 'listening');
    const close = async (): Promise<void> => {
      if (squatter.listening) await once(squatter.close(), 'close');
    };
    const clock = new FakeClock();
    clock.sleep = () => (letsGo ? close() : Promise.resolve());
    const { ports } = await collect(await disk({}), { isNode: false }, undefined, clock);
    await close();
    return ports?.find(({ port }) => port === 9093)?.problem;
  }

  test('detects a port in use on any address', async () => {
    for (const host of ['127.0.0.1', '::'])
      await expect(withSquatter(false, host)).resolves.toBe('in use by another program');
  });

  test('does not mistake another preflight run on this machine for a listening program', async () => {
    await expect(withSquatter(true)).resolves.toBeUndefined();
  });
});
