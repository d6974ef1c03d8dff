import { describe, expect, test } from '@jest/globals';
import { failedChecks, runChecks, MACHINE_CHECKS, preflightErrors, type MachineFacts } from './index.ts';
import { REQUIRED_PROGRAMS } from './node-requirements.ts';

const NOW_MS = Date.UTC(2026, 5, 1);

const fit: MachineFacts = {
  provisioningProblem: undefined,
  tpm: { path: '/dev/tpmrm0', problem: undefined },
  swaps: 'Filename\tType\tSize\tUsed\tPriority\n',
  ports: [{ port: 6443, user: 'API server' }],
  addresses: ['198.18.0.11'],
  configuredAddress: undefined,
  nodeName: 'n1',
  nameResolvesTo: ['127.0.1.1', '198.18.0.11'],
  resolvConf: 'search example.org\nnameserver 198.18.0.1\n',
  diskSpace: [{ directory: '/var/lib/cluster', freeBytes: 10 << 20, neededBytes: 10 << 20 }],
  writableDirectories: [{ path: '/opt/cluster' }],
  kernelRelease: '6.1.0-18-amd64',
  modules: new Set(['overlay', 'br_netfilter']),
  sysctls: {
    'net.ipv4.ip_forward': '1',
    'net.bridge.bridge-nf-call-iptables': '1',
    'net.bridge.bridge-nf-call-ip6tables': '1',
  },
  cgroup: { version: 2, controllers: ['cpu', 'cpuset', 'io', 'memory', 'pids'] },
  allowsCgroupV1: false,
  programs: Object.fromEntries(REQUIRED_PROGRAMS.map(({ program }) => [program, `/usr/sbin/${program}`])),
  memoryBytes: 4 * 1024 ** 3,
  processors: 2,
  nowMs: NOW_MS,
  callerClockMs: NOW_MS + 1000,
  clockSync: 'yes',
};

const judged = (given: Partial<MachineFacts>) => runChecks(MACHINE_CHECKS, { ...fit, ...given });

describe('MACHINE_CHECKS', () => {
  test('tell a fit machine’s figures beside their thresholds, and no problem', () => {
    const results = judged({});
    expect(results.filter(({ status }) => status !== 'ok')).toEqual([]);
    for (const { figure, threshold, cause, fix } of results) {
      expect([figure === '', threshold === '', cause, fix]).toEqual([false, false, '', '']);
    }
    // Each of these is looked at, by a code that is explained.
    const codes = new Set(results.map(({ code }) => code));
    const known = Object.keys(preflightErrors).filter((code) => code !== 'preflight-address-changed');
    expect([...codes].sort()).toEqual(known.sort());
  });

  const unfit: { name: string; given: Partial<MachineFacts>; want: string; says: string }[] = [
    {
      name: 'a provisioning that the agent refuses',
      given: { provisioningProblem: 'the file: Unrecognized key: "colour"' },
      want: 'preflight-provisioning',
      says: 'colour',
    },
    {
      name: 'a TPM that does not answer',
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
      name: 'a busy port',
      given: { ports: [{ port: 6443, user: 'API server', problem: 'taken' }] },
      want: 'preflight-port',
      says: 'port 6443',
    },
    { name: 'no address', given: { addresses: [] }, want: 'preflight-address', says: 'loopback' },
    {
      name: 'an address that changed',
      given: { configuredAddress: '198.18.0.12', nameResolvesTo: ['198.18.0.12'] },
      want: 'preflight-address',
      says: '198.18.0.12',
    },
    {
      name: 'a name that is another machine’s',
      given: { nameResolvesTo: ['198.18.0.99'] },
      want: 'preflight-hostname',
      says: '198.18.0.99',
    },
    {
      name: 'the name that every machine has',
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
      name: 'no forwarding',
      given: { sysctls: { ...fit.sysctls, 'net.ipv4.ip_forward': '0' } },
      want: 'preflight-sysctl',
      says: 'ip_forward',
    },
    {
      name: 'bridges without a firewall',
      given: { sysctls: { ...fit.sysctls, 'net.bridge.bridge-nf-call-iptables': '0' } },
      want: 'preflight-sysctl',
      says: 'bridge-nf-call-iptables',
    },
    {
      name: 'no overlay',
      given: { modules: new Set(['br_netfilter']) },
      want: 'preflight-module',
      says: 'overlay',
    },
    {
      name: 'no br_netfilter',
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
      name: 'a cgroup controller that is off',
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
      name: 'a clock that has lost its battery',
      given: { nowMs: Date.UTC(1970, 0, 1), callerClockMs: undefined },
      want: 'preflight-clock',
      says: '1970',
    },
    {
      name: 'a clock that is behind that of the workstation',
      given: { callerClockMs: NOW_MS + 6 * 60_000 },
      want: 'preflight-clock',
      says: '6m behind',
    },
  ];
  test.each(unfit)('fail for $name, with a cause and a fix', ({ given, want, says }) => {
    const [failure, ...others] = failedChecks(judged(given));
    expect(others).toEqual([]);
    expect(failure).toMatchObject({ code: want, cause: expect.stringContaining(says) });
    expect(failure?.fix).not.toBe('');
  });

  const warnings: { name: string; given: Partial<MachineFacts>; want: string; says: string }[] = [
    { name: 'no name server', given: { resolvConf: '' }, want: 'preflight-dns', says: 'no name server' },
    {
      name: 'a name server of this machine alone',
      given: { resolvConf: 'nameserver 127.0.0.53\n' },
      want: 'preflight-dns',
      says: '127.0.0.53',
    },
    {
      name: 'more name servers than are asked',
      given: { resolvConf: [1, 2, 3, 4].map((n) => `nameserver 192.0.2.${n}`).join('\n') },
      want: 'preflight-dns',
      says: '4 name servers',
    },
    { name: 'an untold clock', given: { clockSync: 'no' }, want: 'preflight-clock', says: 'time service' },
    { name: 'little memory', given: { memoryBytes: 1 << 30 }, want: 'preflight-size', says: '1.0 GiB' },
    { name: 'one processor', given: { processors: 1 }, want: 'preflight-size', says: '1 processor' },
    {
      name: 'a kernel of yesterday',
      given: { kernelRelease: '5.4.0' },
      want: 'preflight-kernel',
      says: '5.8',
    },
  ];
  test.each(warnings)('warn of $name and let the machine become a node', ({ given, want, says }) => {
    const results = judged(given).filter(({ status }) => status !== 'ok');
    expect(results).toEqual([
      expect.objectContaining({ code: want, status: 'warning', cause: expect.stringContaining(says) }),
    ]);
  });

  test('name the disk before what a broken disk causes', () => {
    const programs = { ...fit.programs, ip: undefined };
    const failures = failedChecks(
      judged({ writableDirectories: [{ path: '/etc', problem: 'EROFS' }], programs }),
    );
    expect(failures.map(({ code }) => code)).toEqual(['preflight-read-only', 'preflight-program']);
  });

  test('skip the ports of a node, and parameters that only a missing module brings', () => {
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

  test('take cgroup v1 where the provisioning accepts it', () => {
    const cgroup = { ...fit.cgroup, version: 1 } as const;
    expect(failedChecks(judged({ cgroup, allowsCgroupV1: true }))).toEqual([]);
  });

  test('offer to repair modules and kernel parameters, and nothing else', () => {
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
