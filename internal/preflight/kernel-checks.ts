import type { Observation } from './check.ts';
import type { PreflightErrorCode } from './errors.ts';
import type { MachineFacts } from './machine-facts.ts';
import {
  OLDEST_KERNEL,
  RECOMMENDED_KERNEL,
  REQUIRED_CONTROLLERS,
  REQUIRED_MODULES,
  REQUIRED_SYSCTLS,
} from './node-requirements.ts';

type Observe = (facts: MachineFacts) => readonly Observation[];

const modules: Observe = ({ modules }) =>
  REQUIRED_MODULES.map(({ module, usedBy }) => {
    const seen = { subject: `module ${module}`, threshold: `loaded (${usedBy})` };
    if (modules.has(module)) return { ...seen, figure: 'there' };
    return {
      ...seen,
      figure: 'missing',
      problem: {
        status: 'failed',
        cause: `the kernel module ${module} is not loaded (modprobe ${module})`,
        repair: { kind: 'load-module', module },
      },
    };
  });

const sysctls: Observe = ({ sysctls }) =>
  Object.entries(REQUIRED_SYSCTLS).map(([key, value]) => {
    const found = sysctls[key];
    const seen = { subject: key, figure: found ?? 'unknown to the kernel', threshold: value };
    if (found === value) return seen;
    if (found === undefined) {
      const cause = 'the kernel does not know it before the module br_netfilter is loaded';
      return { ...seen, problem: { status: 'skipped', cause } };
    }
    return {
      ...seen,
      problem: {
        status: 'failed',
        cause: `${key} is ${found}, it must be ${value} (sysctl -w ${key}=${value})`,
        repair: { kind: 'set-sysctl', key, value },
      },
    };
  });

const cgroups: Observe = ({ cgroup, allowsCgroupV1: acceptsCgroupV1 }) => {
  const missing = REQUIRED_CONTROLLERS.filter((name) => !cgroup.controllers.includes(name));
  const isOld = cgroup.version === 1 && !acceptsCgroupV1;
  const cause = 'the machine has cgroup v1, which kubelets refuse from Kubernetes 1.35 on';
  return [
    {
      subject: 'cgroup version',
      figure: `v${cgroup.version}`,
      threshold: acceptsCgroupV1 ? 'v2, or v1 as the provisioning allows' : 'v2',
      problem: isOld ? { status: 'failed', cause } : undefined,
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
              cause: `the cgroup controllers ${missing.join(', ')} are not enabled`,
              fix: `Enable them on the kernel command line (${missing.map((name) => `cgroup_enable=${name}`).join(' ')}), then boot again.`,
            },
    },
  ];
};

const kernel: Observe = ({ kernelRelease }) => {
  const seen = { subject: 'kernel', figure: kernelRelease, threshold: `at least ${OLDEST_KERNEL}` };
  if (!isAtLeast(kernelRelease, OLDEST_KERNEL)) {
    const cause = `the kernel is ${kernelRelease}, Kubernetes supports ${OLDEST_KERNEL} and newer`;
    return [{ ...seen, problem: { status: 'failed', cause } }];
  }
  if (isAtLeast(kernelRelease, RECOMMENDED_KERNEL)) return [seen];
  const cause = `the kernel is ${kernelRelease}; cgroup v2 is complete from ${RECOMMENDED_KERNEL} on`;
  return [{ ...seen, problem: { status: 'warning', cause } }];
};

export const KERNEL_CHECKS: readonly (readonly [PreflightErrorCode, Observe])[] = [
  ['preflight-module', modules],
  ['preflight-sysctl', sysctls],
  ['preflight-cgroup', cgroups],
  ['preflight-kernel', kernel],
];

/** Of "MAJOR.MINOR…"; what is no version is too old, because nobody can tell. */
function isAtLeast(release: string, least: string): boolean {
  const [[major, minor], [leastMajor, leastMinor]] = [numbers(release), numbers(least)];
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

function numbers(version: string): readonly [number, number] {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major ?? -1), Number(minor ?? -1)];
}
