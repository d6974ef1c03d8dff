import { failed, type Observation } from './check.ts';
import type { PreflightErrorCode } from './errors.ts';
import type { MachineFacts } from './machine-facts.ts';
import {
  OLDEST_KERNEL,
  RECOMMENDED_KERNEL,
  REQUIRED_CONTROLLERS,
  REQUIRED_MODULES,
  REQUIRED_SYSCTLS,
} from './node-requirements.ts';

type Observe<Facts = MachineFacts> = (facts: Facts) => readonly Observation[];

const modules: Observe<Pick<MachineFacts, 'modules'>> = ({ modules }) =>
  REQUIRED_MODULES.map(({ module, usedBy }) => {
    const seen = { subject: `module ${module}`, threshold: `loaded (${usedBy})` };
    if (modules.has(module)) return { ...seen, figure: 'loaded' };
    return {
      ...seen,
      figure: 'not loaded',
      problem: {
        status: 'failed',
        cause: `kernel module ${module} is not loaded (run: modprobe ${module})`,
        repair: { kind: 'load-module', module },
      },
    };
  });

/** The kernel has what the network of pods needs to encrypt packets. */
export const wireguard: Observe<Pick<MachineFacts, 'wireguard'>> = ({ wireguard }) => {
  if (wireguard === undefined) return [];
  const cause =
    'the kernel of this machine has no WireGuard (module wireguard), with which the cluster encrypts packets of pods (networking.backend)';
  return [
    {
      subject: 'WireGuard',
      figure: wireguard,
      threshold: 'loaded or loadable (flannel)',
      problem: failed(wireguard === 'missing' ? cause : undefined),
    },
  ];
};

const sysctls: Observe<Pick<MachineFacts, 'sysctls'>> = ({ sysctls }) =>
  Object.entries(REQUIRED_SYSCTLS).map(([key, value]) => {
    const found = sysctls[key];
    const seen = { subject: key, figure: found ?? 'not available', threshold: value };
    if (found === value) return seen;
    if (found === undefined) {
      const cause = 'not available before kernel module br_netfilter is loaded';
      return { ...seen, problem: { status: 'skipped', cause } };
    }
    return {
      ...seen,
      problem: {
        status: 'failed',
        cause: `${key} is ${found}, must be ${value} (run: sysctl -w ${key}=${value})`,
        repair: { kind: 'set-sysctl', key, value },
      },
    };
  });

const cgroups: Observe<Pick<MachineFacts, 'cgroup' | 'allowsCgroupV1'>> = ({ cgroup, allowsCgroupV1 }) => {
  const missing = REQUIRED_CONTROLLERS.filter((name) => !cgroup.controllers.includes(name));
  const isOld = cgroup.version === 1 && !allowsCgroupV1;
  const cause = 'the machine has cgroup v1, which the kubelet refuses since Kubernetes 1.35';
  return [
    {
      subject: 'cgroup version',
      figure: `v${cgroup.version}`,
      threshold: allowsCgroupV1 ? 'v2, or v1 (allowed by the provisioning)' : 'v2',
      problem: failed(isOld ? cause : undefined),
    },
    {
      subject: 'cgroup controllers',
      figure: REQUIRED_CONTROLLERS.filter((name) => !missing.includes(name)).join(' ') || 'none',
      threshold: REQUIRED_CONTROLLERS.join(' '),
      problem:
        missing.length === 0
          ? undefined
          : {
              status: 'failed',
              cause: `cgroup controllers not enabled: ${missing.join(', ')}`,
              fix: `Add ${missing.map((name) => `cgroup_enable=${name}`).join(' ')} to the kernel command line, then reboot.`,
            },
    },
  ];
};

const kernel: Observe = ({ kernelRelease }) => {
  const seen = { subject: 'kernel', figure: kernelRelease, threshold: `at least ${OLDEST_KERNEL}` };
  if (!isAtLeast(kernelRelease, OLDEST_KERNEL)) {
    const cause = `kernel ${kernelRelease} is not supported: Kubernetes needs ${OLDEST_KERNEL} or later`;
    return [{ ...seen, problem: failed(cause) }];
  }
  if (isAtLeast(kernelRelease, RECOMMENDED_KERNEL)) return [seen];
  const cause = `kernel ${kernelRelease} has no complete cgroup v2: ${RECOMMENDED_KERNEL} or later is recommended`;
  return [{ ...seen, problem: { status: 'warning', cause } }];
};

/** The checks of modules, parameters and cgroups, which can change while a node runs. */
export const KERNEL_SETTING_CHECKS = [
  ['preflight-module', modules],
  ['preflight-sysctl', sysctls],
  ['preflight-cgroup', cgroups],
] as const;

/** The checks of kernel, modules, parameters and cgroups. */
export const KERNEL_CHECKS: readonly (readonly [PreflightErrorCode, Observe])[] = [
  ...KERNEL_SETTING_CHECKS,
  ['preflight-kernel', kernel],
  ['preflight-wireguard', wireguard],
];

/** Compares "MAJOR.MINOR…"; a text without a version counts as too old. */
function isAtLeast(release: string, least: string): boolean {
  const [[major, minor], [leastMajor, leastMinor]] = [numbers(release), numbers(least)];
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

function numbers(version: string): readonly [number, number] {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major ?? -1), Number(minor ?? -1)];
}
