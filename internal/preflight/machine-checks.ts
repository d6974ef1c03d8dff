import type { Check, Observation } from './check.ts';
import { preflightErrors, type PreflightErrorCode } from './errors.ts';
import { KERNEL_CHECKS } from './kernel-checks.ts';
import type { MachineFacts, DiskSpace } from './machine-facts.ts';
import { NAME_CHECKS } from './name-checks.ts';
import {
  EARLIEST_TIME_MS,
  MAX_CLOCK_OFFSET_MS,
  RECOMMENDED_MEMORY_BYTES,
  RECOMMENDED_PROCESSORS,
  REQUIRED_PROGRAMS,
} from './node-requirements.ts';

type Observe = (facts: MachineFacts) => readonly Observation[];

const provisioning: Observe = ({ provisioningProblem: cause }) => [
  {
    subject: 'provisioning',
    figure: cause === undefined ? 'fine' : 'refused',
    threshold: 'as the agent takes it',
    problem: cause === undefined ? undefined : { status: 'failed', cause },
  },
];

const tpm: Observe = ({ tpm }) => [
  {
    subject: tpm === undefined ? 'TPM' : `TPM ${tpm.path}`,
    figure: tpm === undefined ? 'none is provisioned' : tpm.problem === undefined ? 'answers' : 'of no use',
    threshold: 'answers, where one is provisioned',
    problem:
      tpm?.problem === undefined
        ? undefined
        : { status: 'failed', cause: `the TPM at ${tpm.path}: ${tpm.problem}` },
  },
];

const readOnly: Observe = ({ writableDirectories: written }) =>
  written.map(({ path, problem }) => ({
    subject: path,
    figure: problem === undefined ? 'writable' : 'not writable',
    threshold: 'writable',
    problem: problem === undefined ? undefined : { status: 'failed', cause: `${path}: ${problem}` },
  }));

const disk: Observe = ({ diskSpace: room }) => room.map(judgeRoom);

function judgeRoom({ directory, freeBytes, neededBytes }: DiskSpace): Observation {
  const [free, needed] = [mebibytes(freeBytes), mebibytes(neededBytes)];
  const cause = `the file system of ${directory} has ${free} free, ${needed} are needed`;
  return {
    subject: directory,
    figure: `${free} free`,
    threshold: `at least ${needed}`,
    problem: freeBytes < neededBytes ? { status: 'failed', cause } : undefined,
  };
}

const swap: Observe = ({ swaps }) => {
  const devices = swapDevices(swaps);
  const threshold = 'off';
  if (devices.length === 0) return [{ subject: 'swap', figure: 'off', threshold }];
  return devices.map((device) => ({
    subject: `swap ${device}`,
    figure: 'on',
    threshold,
    problem: { status: 'failed', cause: `swap is on: ${device}` },
  }));
};

const ports: Observe = ({ ports }) => {
  if (ports === undefined) {
    const cause = 'this machine is a node, and its own services listen there';
    return [{ subject: 'ports', figure: 'in use', threshold: 'free', problem: { status: 'skipped', cause } }];
  }
  return ports.map(({ port, user, problem }) => ({
    subject: `port ${port}`,
    figure: problem === undefined ? 'free' : 'in use',
    threshold: `free (${user})`,
    problem:
      problem === undefined
        ? undefined
        : { status: 'failed', cause: `port ${port}: needed by the ${user}: ${problem}` },
  }));
};

const programs: Observe = ({ programs }) =>
  REQUIRED_PROGRAMS.map(({ program, deb, rpm, usedBy }) => {
    const path = programs[program];
    const seen = { subject: program, figure: path ?? 'missing', threshold: `installed (${usedBy})` };
    if (path !== undefined) return seen;
    return {
      ...seen,
      problem: {
        status: 'failed',
        cause: `${program} is missing (Debian package ${deb})`,
        fix: `Install it: \`apt-get install ${deb}\` (Debian, Ubuntu) or \`dnf install ${rpm}\` (Fedora, RHEL).`,
      },
    };
  });

const clock: Observe = (facts) => [clockOffset(facts), clockService(facts)];

function clockOffset({ nowMs, callerClockMs: askerMs }: MachineFacts): Observation {
  const figure = `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
  const subject = 'clock';
  if (nowMs < EARLIEST_TIME_MS) {
    const earliest = new Date(EARLIEST_TIME_MS).toISOString().slice(0, 10);
    const cause = `the clock says ${figure}, which is before ${earliest}`;
    return { subject, figure, threshold: `after ${earliest}`, problem: { status: 'failed', cause } };
  }
  const threshold = `within ${MAX_CLOCK_OFFSET_MS / 60_000} min of the workstation`;
  if (askerMs === undefined) return { subject, figure, threshold };
  const apartSeconds = Math.round(Math.abs(nowMs - askerMs) / 1000);
  const cause = `the clock is ${apartSeconds} s ${nowMs < askerMs ? 'behind' : 'ahead of'} that of the workstation`;
  const isFar = apartSeconds * 1000 > MAX_CLOCK_OFFSET_MS;
  return { subject, figure, threshold, problem: isFar ? { status: 'failed', cause } : undefined };
}

function clockService({ clockSync }: MachineFacts): Observation {
  const seen = { subject: 'time service', threshold: 'the clock is synchronized' };
  if (clockSync === 'yes') return { ...seen, figure: 'synchronized' };
  if (clockSync === 'no') {
    const cause = 'no time service has set the clock; it will drift until certificates are not valid';
    return { ...seen, figure: 'not synchronized', problem: { status: 'warning', cause } };
  }
  const cause = 'timedatectl gave no answer';
  return { ...seen, figure: 'unknown', problem: { status: 'skipped', cause } };
}

const size: Observe = ({ memoryBytes, processors }) => {
  const few = processors < RECOMMENDED_PROCESSORS;
  const little = memoryBytes < RECOMMENDED_MEMORY_BYTES;
  const [memory, wanted] = [mebibytes(memoryBytes), mebibytes(RECOMMENDED_MEMORY_BYTES)];
  return [
    {
      subject: 'memory',
      figure: memory,
      threshold: `at least ${wanted} for a control plane`,
      problem: little ? { status: 'warning', cause: `the machine has ${memory} of memory` } : undefined,
    },
    {
      subject: 'processors',
      figure: String(processors),
      threshold: `at least ${RECOMMENDED_PROCESSORS} for a control plane`,
      problem: few ? { status: 'warning', cause: `the machine has ${processors} processor` } : undefined,
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

/** Everything that would make an init or a join fail later, worst first: a broken disk before what it causes. */
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

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1024 / 1024)} MiB`;
}
