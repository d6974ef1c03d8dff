import { formatDuration } from '../clock/index.ts';
import { formatBytes } from '../printable/index.ts';
import { failed, type Check, type Observation } from './check.ts';
import { preflightErrors, type PreflightErrorCode } from './errors.ts';
import { outermost } from './file-systems.ts';
import { KERNEL_CHECKS } from './kernel-checks.ts';
import type { DiskSpace, MachineFacts } from './machine-facts.ts';
import { NAME_CHECKS } from './name-checks.ts';
import {
  EARLIEST_TIME_MS,
  MAX_CLOCK_OFFSET_MS,
  RECOMMENDED_MEMORY_BYTES,
  RECOMMENDED_PROCESSORS,
  REQUIRED_PROGRAMS,
  STATE_DISK_PROGRAMS,
} from './node-requirements.ts';

type Observe = (facts: MachineFacts) => readonly Observation[];

const provisioning: Observe = ({ provisioningProblem: cause }) => [
  {
    subject: 'provisioning',
    figure: cause === undefined ? 'valid' : 'invalid',
    threshold: 'valid',
    problem: failed(cause),
  },
];

const tpm: Observe = ({ tpm }) => {
  const threshold = 'responds, if configured';
  if (tpm === undefined) return [{ subject: 'TPM', figure: 'none configured', threshold }];
  const { path, problem } = tpm;
  return [
    {
      subject: `TPM ${path}`,
      figure: problem === undefined ? 'responds' : 'not usable',
      threshold,
      problem: failed(problem && `TPM ${path} is not usable: ${problem}`),
    },
  ];
};

const readOnly: Observe = ({ writableDirectories }) => {
  const unwritable = writableDirectories.filter(({ problem }) => problem !== undefined);
  const named = outermost(unwritable.map(({ path }) => path));
  return writableDirectories
    .filter(({ path, problem }) => problem === undefined || named.includes(path))
    .map(({ path, problem }) => ({
      subject: path,
      figure: problem === undefined ? 'writable' : 'not writable',
      threshold: 'writable',
      problem: failed(problem && `${path} is not writable: ${problem}`),
    }));
};

const disk: Observe = ({ diskSpace, includesBundle }) => [
  ...diskSpace.map(enoughSpace),
  ...(includesBundle ? [] : [SPACE_WITHOUT_BUNDLE]),
];

const SPACE_WITHOUT_BUNDLE: Observation = {
  subject: 'space for the bundle',
  figure: 'not checked',
  threshold: 'free',
  problem: {
    status: 'skipped',
    cause: 'the size of the bundle is not known here: an init also needs the space for the bundle',
  },
};

function enoughSpace({ directory, freeBytes, neededBytes }: DiskSpace): Observation {
  const [free, needed] = [formatBytes(freeBytes), formatBytes(neededBytes)];
  const isShort = freeBytes < neededBytes;
  return {
    subject: directory,
    figure: `${free} free`,
    threshold: `at least ${needed}`,
    problem: failed(
      isShort ? `not enough space in ${directory}: ${free} free, ${needed} required` : undefined,
    ),
  };
}

/** The kubelet does not start with swap. */
export const swap = ({ swaps }: Pick<MachineFacts, 'swaps'>): readonly Observation[] => {
  const devices = swapDevices(swaps);
  const threshold = 'off';
  if (devices.length === 0) return [{ subject: 'swap', figure: 'off', threshold }];
  return devices.map((device) => ({
    subject: `swap ${device}`,
    figure: 'on',
    threshold,
    problem: failed(`swap is enabled: ${device}`),
  }));
};

const ports: Observe = ({ ports }) => {
  if (ports === undefined) {
    const cause = 'this machine is a node: its own services listen on these ports';
    return [{ subject: 'ports', figure: 'in use', threshold: 'free', problem: { status: 'skipped', cause } }];
  }
  return ports.map(({ port, user, problem }) => ({
    subject: `port ${port}`,
    figure: problem === undefined ? 'free' : 'in use',
    threshold: `free (${user})`,
    problem: failed(problem && `port ${port} (${user}) is not available: ${problem}`),
  }));
};

const programs: Observe = ({ programs, hasStateDisk }) =>
  [...REQUIRED_PROGRAMS, ...(hasStateDisk ? STATE_DISK_PROGRAMS : [])].map(
    ({ program, deb, rpm, usedBy }) => {
      const path = programs[program];
      const seen = { subject: program, figure: path ?? 'missing', threshold: `installed (${usedBy})` };
      if (path !== undefined) return seen;
      return {
        ...seen,
        problem: {
          status: 'failed',
          cause: `program ${program} not found (Debian package ${deb})`,
          fix: `Run \`apt-get install ${deb}\` (Debian, Ubuntu) or \`dnf install ${rpm}\` (Fedora, RHEL).`,
        },
      };
    },
  );

const clock: Observe = (facts) => [clockOffset(facts), clockService(facts)];

function clockOffset({ nowMs, callerClockMs }: MachineFacts): Observation {
  const figure = `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
  const subject = 'clock';
  if (nowMs < EARLIEST_TIME_MS) {
    const earliest = new Date(EARLIEST_TIME_MS).toISOString().slice(0, 10);
    const problem = failed(`the clock is wrong: ${figure} is before ${earliest}`);
    return { subject, figure, threshold: `after ${earliest}`, problem };
  }
  const threshold = `within ${formatDuration(MAX_CLOCK_OFFSET_MS)} of the workstation`;
  if (callerClockMs === undefined) return { subject, figure, threshold };
  const offsetMs = Math.abs(nowMs - callerClockMs);
  const side = nowMs < callerClockMs ? 'behind' : 'ahead of';
  const cause = `the clock is ${formatDuration(offsetMs)} ${side} the clock of the workstation`;
  return {
    subject,
    figure,
    threshold,
    problem: failed(offsetMs > MAX_CLOCK_OFFSET_MS ? cause : undefined),
  };
}

function clockService({ clockSync }: MachineFacts): Observation {
  const seen = { subject: 'time service', threshold: 'clock synchronized' };
  if (clockSync === 'yes') return { ...seen, figure: 'synchronized' };
  if (clockSync === 'no') {
    const cause =
      'the clock is not synchronized by a time service: when it drifts, certificates are rejected';
    return { ...seen, figure: 'not synchronized', problem: { status: 'warning', cause } };
  }
  return {
    ...seen,
    figure: 'unknown',
    problem: { status: 'skipped', cause: 'timedatectl does not respond' },
  };
}

const size: Observe = ({ memoryBytes, processors }) => {
  const isSmall = memoryBytes < RECOMMENDED_MEMORY_BYTES;
  const isSlow = processors < RECOMMENDED_PROCESSORS;
  const memory = formatBytes(memoryBytes);
  return [
    {
      subject: 'memory',
      figure: memory,
      threshold: `at least ${formatBytes(RECOMMENDED_MEMORY_BYTES)} for a control plane`,
      problem: isSmall ? { status: 'warning', cause: `the machine has only ${memory} of memory` } : undefined,
    },
    {
      subject: 'processors',
      figure: String(processors),
      threshold: `at least ${RECOMMENDED_PROCESSORS} for a control plane`,
      problem: isSlow
        ? { status: 'warning', cause: `the machine has only ${processors} processor` }
        : undefined,
    },
  ];
};

const ENTRIES: readonly (readonly [PreflightErrorCode, Observe])[] = [
  ['preflight-read-only', readOnly],
  ['preflight-disk', disk],
  ['preflight-provisioning', provisioning],
  ['preflight-tpm', tpm],
  ['preflight-swap', swap],
  ...NAME_CHECKS,
  ['preflight-port', ports],
  ...KERNEL_CHECKS,
  ['preflight-program', programs],
  ['preflight-clock', clock],
  ['preflight-size', size],
];

/**
 * All checks of a machine. A problem comes before the problems that it causes: a full disk before a missing program.
 */
export const MACHINE_CHECKS: readonly Check<MachineFacts>[] = ENTRIES.map(([code, observe]) => ({
  code,
  fix: preflightErrors[code].fix,
  observe,
}));

function swapDevices(swaps: string): readonly string[] {
  return swaps
    .split('\n')
    .slice(1)
    .map((line) => line.split(/\s+/)[0] ?? '')
    .filter((device) => device !== '');
}
