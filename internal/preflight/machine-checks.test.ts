import { describe, expect, test } from '@jest/globals';
import { failedChecks, runChecks, MACHINE_CHECKS, preflightErrors, type MachineFacts } from './index.ts';
import { REQUIRED_PROGRAMS, STATE_DISK_PROGRAMS } from './node-requirements.ts';

const NOW_MS = Date.UTC(2026, 5, 1);

const fit: MachineFacts = {
  provisioningProblem: undefined,
  tpm: { path: '/dev/tpmrm0', problem: undefined },
  swaps: 'Filename\tType\tSize\tUsed\tPriority\n',
  ports: [{ port: 6443, user: 'API server' }],
  addresses: ['198.18.0.11'],
  configuredAddress: undefined,
  families: ['IPv4'],
  nodeName: 'n1',
  nameResolvesTo: ['127.0.1.1', '198.18.0.11'],
  resolvConf: 'search example.org\nnameserver 198.18.0.1\n',
  diskSpace: [{ directory: '/var/lib/cluster', freeBytes: 10 << 20, neededBytes: 10 << 20 }],
  includesBundle: true,
  writableDirectories: [{ path: '/opt/cluster' }],
  kernelRelease: '6.1.0-18-amd64',
  modules: new Set(['overlay', 'br_netfilter']),
  wireguard: 'loadable',
  sysctls: {
    'net.ipv4.ip_forward': '1',
    'net.bridge.bridge-nf-call-iptables': '1',
    'net.bridge.bridge-nf-call-ip6tables': '1',
  },
  cgroup: { version: 2, controllers: ['cpu', 'cpuset', 'io', 'memory', 'pids'] },
  allowsCgroupV1: false,
  hasStateDisk: false,
  programs: Object.fromEntries(REQUIRED_PROGRAMS.map(({ program }) => [program, `/usr/sbin/${program}`])),
  memoryBytes: 4 * 1024 ** 3,
  processors: 2,
  nowMs: NOW_MS,
  callerClockMs: NOW_MS + 1000,
  clockSync: 'yes',
};

const judged = (given: Partial<MachineFacts>) => runChecks(MACHINE_CHECKS, { ...fit, ...given });

describe('MACHINE_CHECKS', () => {
  test('report values and thresholds of a suitable machine, and no problem', () => {
    const results = judged({});
    expect(results.filter(({ status }) => status !== 'ok')).toEqual([]);
    for (const { figure, threshold, cause, fix } of results) {
      expect([figure === '', threshold === '', cause, fix]).toEqual([false, false, '', '']);
    }
    // Every check must have a result with a code from the catalogue.
    const codes = new Set(results.map(({ code }) => code));
    const known = Object.keys(preflightErrors).filter((code) => code !== 'preflight-address-changed');
    expect([...codes].sort()).toEqual(known.sort());
  });

  test('compare the addresses with the families of a cluster, and nothing while the families are not known', () => {
    const of = (given: Partial<MachineFacts>) =>
      judged(given).filter(({ code }) => code === 'preflight-address-family');
    expect(of({ families: [] })).toEqual([]);
    const dual = { families: ['IPv4', 'IPv6'] as const };
    expect(of(dual)).toMatchObject([
      {
        status: 'failed',
        figure: 'IPv4',
        threshold: 'IPv4, IPv6',
        cause: expect.stringMatching(/no IPv6 address/),
      },
    ]);
    const addresses = ['198.18.0.11', '2001:2::11'];
    expect(of({ ...dual, addresses })).toMatchObject([{ status: 'ok' }]);
    expect(of({ ...dual, addresses, configuredAddress: '2001:2::11' })).toMatchObject([{ status: 'failed' }]);
  });

  test('require WireGuard of the kernel in a cluster that encrypts packets of pods, and in no other', () => {
    const of = (wireguard: MachineFacts['wireguard']) =>
      judged({ wireguard }).filter(({ code }) => code === 'preflight-wireguard');
    expect(of(undefined)).toEqual([]);
    expect(of('loaded')).toMatchObject([{ status: 'ok', figure: 'loaded' }]);
    expect(of('missing')).toMatchObject([
      { status: 'failed', figure: 'missing', cause: expect.stringMatching(/kernel .* has no WireGuard/) },
    ]);
  });

  test('require of addresses and name servers only what they check', () => {
    const thresholds = judged({})
      .filter(({ code }) => code === 'preflight-address' || code === 'preflight-dns')
      .map(({ subject, threshold }) => [subject, threshold]);
    expect(thresholds).toEqual([
      ['address', 'one that is not loopback or link-local'],
      ['name servers', '1 to 3 configured, none on the loopback'],
    ]);
  });

  const unfit: { name: string; given: Partial<MachineFacts>; want: string; says: string }[] = [
    {
      name: 'a provisioning file that the agent refuses',
      given: { provisioningProblem: 'the file: unknown key "colour"' },
      want: 'preflight-provisioning',
      says: 'colour',
    },
    {
      name: 'a TPM that does not respond',
      given: { tpm: { path: '/dev/tpmrm0', problem: 'no such device' } },
      want: 'preflight-tpm',
      says: 'no such device',
    },
    {
      name: 'swap',
      given: { swaps: `${fit.swaps}/dev/sda2 partition 1 0 -2\n` },
      want: 'preflight-swap',
      says: '/dev/sda2',
    },
    {
      name: 'a port in use',
      given: { ports: [{ port: 6443, user: 'API server', problem: 'taken' }] },
      want: 'preflight-port',
      says: 'port 6443',
    },
    {
      name: 'a machine without an address',
      given: { addresses: [] },
      want: 'preflight-address',
      says: 'loopback',
    },
    {
      name: 'a configured address that the machine no longer has',
      given: { configuredAddress: '198.18.0.12', nameResolvesTo: ['198.18.0.12'] },
      want: 'preflight-address',
      says: '198.18.0.12',
    },
    {
      name: 'a host name that resolves to another machine',
      given: { nameResolvesTo: ['198.18.0.99'] },
      want: 'preflight-hostname',
      says: '198.18.0.99',
    },
    {
      name: 'the host name localhost',
      given: { nodeName: 'localhost', nameResolvesTo: ['127.0.0.1'] },
      want: 'preflight-hostname',
      says: 'localhost',
    },
    {
      name: 'a full disk',
      given: { diskSpace: [{ directory: '/var/lib/containerd', freeBytes: 9 << 20, neededBytes: 10 << 20 }] },
      want: 'preflight-disk',
      says: '/var/lib/containerd: 9.0 MiB free, 10.0 MiB required',
    },
    {
      name: 'a read-only disk',
      given: { writableDirectories: [{ path: '/opt/cluster', problem: 'EROFS' }] },
      want: 'preflight-read-only',
      says: '/opt/cluster',
    },
    {
      name: 'disabled IP forwarding',
      given: { sysctls: { ...fit.sysctls, 'net.ipv4.ip_forward': '0' } },
      want: 'preflight-sysctl',
      says: 'ip_forward',
    },
    {
      name: 'bridged traffic that bypasses iptables',
      given: { sysctls: { ...fit.sysctls, 'net.bridge.bridge-nf-call-iptables': '0' } },
      want: 'preflight-sysctl',
      says: 'bridge-nf-call-iptables',
    },
    {
      name: 'a kernel without the overlay module',
      given: { modules: new Set(['br_netfilter']) },
      want: 'preflight-module',
      says: 'overlay',
    },
    {
      name: 'a kernel without br_netfilter',
      given: { modules: new Set(['overlay']) },
      want: 'preflight-module',
      says: 'br_netfilter',
    },
    {
      name: 'cgroup v1',
      given: { cgroup: { ...fit.cgroup, version: 1 } },
      want: 'preflight-cgroup',
      says: 'cgroup v1',
    },
    {
      name: 'a disabled cgroup controller',
      given: { cgroup: { version: 2, controllers: ['cpu', 'cpuset', 'pids'] } },
      want: 'preflight-cgroup',
      says: 'memory',
    },
    {
      name: 'an old kernel',
      given: { kernelRelease: '4.18.0-553.el8' },
      want: 'preflight-kernel',
      says: '4.18',
    },
    {
      name: 'a kernel without a version',
      given: { kernelRelease: '' },
      want: 'preflight-kernel',
      says: '5.4',
    },
    {
      name: 'a missing program',
      given: { programs: { ...fit.programs, conntrack: undefined } },
      want: 'preflight-program',
      says: 'conntrack',
    },
    {
      name: 'a clock that was reset to its epoch',
      given: { nowMs: Date.UTC(1970, 0, 1), callerClockMs: undefined },
      want: 'preflight-clock',
      says: '1970',
    },
    {
      name: 'a clock that is behind the clock of the workstation',
      given: { callerClockMs: NOW_MS + 6 * 60_000 },
      want: 'preflight-clock',
      says: '6m behind',
    },
  ];
  test.each(unfit)('report a failure for $name, with a cause and a fix', ({ given, want, says }) => {
    const [failure, ...others] = failedChecks(judged(given));
    expect(others).toEqual([]);
    expect(failure).toMatchObject({ code: want, cause: expect.stringContaining(says) });
    expect(failure?.fix).not.toBe('');
  });

  const warnings: { name: string; given: Partial<MachineFacts>; want: string; says: string }[] = [
    {
      name: 'no configured name server',
      given: { resolvConf: '' },
      want: 'preflight-dns',
      says: 'no name server',
    },
    {
      name: 'only a loopback name server',
      given: { resolvConf: 'nameserver 127.0.0.53\n' },
      want: 'preflight-dns',
      says: '127.0.0.53',
    },
    {
      name: 'more name servers than the resolver uses',
      given: { resolvConf: [1, 2, 3, 4].map((n) => `nameserver 192.0.2.${n}`).join('\n') },
      want: 'preflight-dns',
      says: '4 name servers',
    },
    {
      name: 'a clock that no time service synchronizes',
      given: { clockSync: 'no' },
      want: 'preflight-clock',
      says: 'time service',
    },
    { name: 'little memory', given: { memoryBytes: 1 << 30 }, want: 'preflight-size', says: '1.0 GiB' },
    { name: 'one processor', given: { processors: 1 }, want: 'preflight-size', says: '1 processor' },
    {
      name: 'a kernel below the recommended version',
      given: { kernelRelease: '5.4.0' },
      want: 'preflight-kernel',
      says: '5.8',
    },
  ];
  test.each(warnings)('report a warning for $name and accept the machine', ({ given, want, says }) => {
    const results = judged(given).filter(({ status }) => status !== 'ok');
    expect(results).toEqual([
      expect.objectContaining({ code: want, status: 'warning', cause: expect.stringContaining(says) }),
    ]);
  });

  test('report a read-only directory once, without the directories in it', () => {
    const outer = { path: '/var/lib/cluster', problem: 'EROFS' };
    const inner = { path: '/var/lib/cluster/etcd-state/data', problem: 'EROFS' };
    const failures = (paths: readonly { path: string; problem: string }[]) =>
      failedChecks(judged({ writableDirectories: paths })).map(({ subject }) => subject);
    expect(failures([inner, outer])).toEqual([outer.path]);
    expect(failures([inner, { ...outer, path: '/var/lib/cluster-2' }])).toEqual([
      inner.path,
      '/var/lib/cluster-2',
    ]);
  });

  test('report a broken disk before the problems that it causes', () => {
    const programs = { ...fit.programs, ip: undefined };
    const failures = failedChecks(
      judged({ writableDirectories: [{ path: '/etc', problem: 'EROFS' }], programs }),
    );
    expect(failures.map(({ code }) => code)).toEqual(['preflight-read-only', 'preflight-program']);
  });

  test('require the programs of a state disk on a machine that has one', () => {
    expect(failedChecks(judged({ hasStateDisk: false }))).toEqual([]);
    const failures = failedChecks(judged({ hasStateDisk: true }));
    expect(failures).toEqual([
      expect.objectContaining({
        code: 'preflight-program',
        subject: 'cryptsetup',
        fix: expect.stringContaining('apt-get install cryptsetup-bin'),
      }),
      expect.objectContaining({
        code: 'preflight-program',
        subject: 'mkfs.ext4',
        fix: expect.stringContaining('apt-get install e2fsprogs'),
      }),
    ]);
    const installed = STATE_DISK_PROGRAMS.map(({ program }) => [program, `/usr/sbin/${program}`] as const);
    const programs = { ...fit.programs, ...Object.fromEntries(installed) };
    expect(failedChecks(judged({ hasStateDisk: true, programs }))).toEqual([]);
  });

  test('skip the ports of a node, and parameters that exist only with a missing module', () => {
    const sysctls = { 'net.ipv4.ip_forward': '1' };
    const results = judged({ ports: undefined, sysctls, modules: new Set(['overlay']) });
    const skipped = results.filter(({ status }) => status === 'skipped');
    expect(skipped.map(({ subject }) => subject)).toEqual([
      'ports',
      'net.bridge.bridge-nf-call-iptables',
      'net.bridge.bridge-nf-call-ip6tables',
    ]);
    expect(failedChecks(results).map(({ code }) => code)).toEqual(['preflight-module']);
  });

  test('accept cgroup v1 when the provisioning allows it', () => {
    const cgroup = { ...fit.cgroup, version: 1 } as const;
    expect(failedChecks(judged({ cgroup, allowsCgroupV1: true }))).toEqual([]);
  });

  test('offer to repair only kernel modules and kernel parameters', () => {
    const everything = judged({
      ...{ modules: new Set<string>(), sysctls: { 'net.ipv4.ip_forward': '0' } },
      swaps: `${fit.swaps}/dev/sda2 partition 1 0 -2\n`,
      programs: {},
    });
    expect(everything.flatMap(({ repair }) => repair ?? [])).toEqual([
      { kind: 'load-module', module: 'overlay' },
      { kind: 'load-module', module: 'br_netfilter' },
      { kind: 'set-sysctl', key: 'net.ipv4.ip_forward', value: '1' },
    ]);
  });
});
