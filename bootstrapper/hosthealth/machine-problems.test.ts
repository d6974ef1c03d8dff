import { dirname } from 'node:path';
import { expect, test } from '@jest/globals';
import type { NodeNetwork } from '../../internal/preflight/index.ts';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { createMachineCheck } from './machine-problems.ts';

const WELL: Readonly<Record<string, string>> = {
  '/proc/swaps': 'Filename\tType\tSize\tUsed\tPriority\n',
  '/proc/filesystems': 'nodev\toverlay\n',
  '/proc/sys/net/ipv4/ip_forward': '1\n',
  '/proc/sys/net/bridge/bridge-nf-call-iptables': '1\n',
  '/proc/sys/net/bridge/bridge-nf-call-ip6tables': '1\n',
  '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu io memory pids\n',
  '/etc/resolv.conf': 'nameserver 192.0.2.53\n',
};

const NODE: NodeNetwork = {
  families: [],
  addresses: [],
  configuredAddress: undefined,
  needsWireguard: false,
};

async function createCheck(changes: Readonly<Record<string, string>> = {}, node: Partial<NodeNetwork> = {}) {
  const files = new MemoryFiles();
  const write = async (path: string, text: string): Promise<void> => {
    await files.makeDirectory(dirname(path));
    await files.writeAtomic(path, text);
  };
  for (const [path, text] of Object.entries({ ...WELL, ...changes })) await write(path, text);
  const clock = new FakeClock();
  return {
    files,
    clock,
    write,
    check: createMachineCheck(
      { files, clock },
      {
        allowsCgroupV1: false,
        node: () => ({ ...NODE, ...node }),
      },
    ),
  };
}

test('createMachineCheck() finds nothing on a machine that is as a node needs it', async () => {
  const { check } = await createCheck();
  expect(await check()).toEqual([]);
});

test.each([
  {
    name: 'a disk that the kernel has made read-only',
    change: {
      '/proc/self/mountinfo':
        '20 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 20 8:2 / /var rw - ext4 /dev/sdb1 ro\n',
    },
    want: { code: 'preflight-read-only', subject: 'file system /var', isWarning: false },
  },
  {
    name: 'forwarding that is off',
    change: { '/proc/sys/net/ipv4/ip_forward': '0\n' },
    want: { code: 'preflight-sysctl', subject: 'net.ipv4.ip_forward', isWarning: false },
  },
  {
    name: 'swap',
    change: { '/proc/swaps': 'Filename\tType\n/swapfile file 2097148 0 -2\n' },
    want: { code: 'preflight-swap', subject: 'swap /swapfile', isWarning: false },
  },
  {
    name: 'a missing module',
    change: { '/proc/filesystems': '\n' },
    want: { code: 'preflight-module', subject: 'module overlay', isWarning: false },
  },
  {
    name: 'a missing cgroup controller',
    change: { '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu pids\n' },
    want: { code: 'preflight-cgroup', subject: 'cgroup controllers', isWarning: false },
  },
  {
    name: 'as a warning, a name server that pods cannot reach',
    change: { '/etc/resolv.conf': 'nameserver 127.0.0.1\n' },
    want: { code: 'preflight-dns', subject: 'name servers', isWarning: true },
  },
])('createMachineCheck() finds $name', async ({ change, want }) => {
  const { check } = await createCheck(change);
  expect(await check()).toEqual([{ ...want, cause: expect.any(String) }]);
});

test('createMachineCheck() reads the machine again after 20 s, not before', async () => {
  const { clock, write, check } = await createCheck();
  await check();
  await write('/proc/sys/net/ipv4/ip_forward', '0\n');
  await clock.advance(19_999);
  expect(await check()).toEqual([]);
  await clock.advance(1);
  expect(await check()).toHaveLength(1);
});

test.each([
  { addresses: ['192.0.2.1', '2001:db8::1'], configuredAddress: '192.0.2.1', want: [] },
  {
    addresses: ['192.0.2.1'],
    configuredAddress: '192.0.2.1',
    want: ['the cluster has IPv4 and IPv6 networks, but the machine has no IPv6 address'],
  },
  {
    addresses: ['192.0.2.1', '2001:db8::1'],
    configuredAddress: '2001:db8::1',
    want: [
      'the cluster has IPv4 and IPv6 networks, but the address of the machine is 2001:db8::1, not of the first family',
    ],
  },
])('createMachineCheck() compares $addresses with the families of the cluster', async ({ want, ...node }) => {
  const { files, clock } = await createCheck();
  const check = createMachineCheck(
    { files, clock },
    { allowsCgroupV1: false, node: () => ({ ...NODE, families: ['IPv4', 'IPv6'], ...node }) },
  );
  const found = await check();
  expect(found.map(({ code }) => code)).toEqual(want.map(() => 'preflight-address-family'));
  expect(found.map(({ cause }) => cause)).toEqual(want);
});

test('createMachineCheck() looks for WireGuard on a node of a cluster that needs it', async () => {
  const { check, clock, write } = await createCheck({}, { needsWireguard: true });
  expect(await check()).toMatchObject([{ code: 'preflight-wireguard', isWarning: false }]);
  await write('/sys/module/wireguard/version', '1.0.0\n');
  await clock.advance(20_000);
  expect(await check()).toEqual([]);
});
