import { median, ratioOf, type BenchResult } from '../result.ts';
import type { EtcdRun } from './etcd-fsync.ts';
import type { FioRun, WorkloadName } from './fio.ts';

/** The disks that are compared. The plain one is what the others are divided by. */
export const DISKS = ['plain', 'encrypted', 'authenticated'] as const;
/** One of `DISKS`. */
export type Disk = (typeof DISKS)[number];

const NAMES: Readonly<Record<Exclude<Disk, 'plain'>, string>> = {
  encrypted: 'encryption without tags',
  authenticated: 'encryption with tags (the default)',
};

/** The figures of a disk in one round. */
export interface DiskRun extends Readonly<Record<WorkloadName, FioRun>> {
  readonly etcd: EtcdRun;
}

/** The figures of one round. */
export type DiskRound = Readonly<Record<Disk, DiskRun>>;

/** The order of the disks in a round: each of them is the first, second and last one in turn. */
export function orderOf(round: number): readonly Disk[] {
  return DISKS.map((_, index) => DISKS[(round + index) % DISKS.length] ?? 'plain');
}

interface Figure {
  readonly name: string;
  readonly of: (run: DiskRun) => number;
  /** More of it is better: the plain disk's figure is divided by the other one's. */
  readonly isSpeed?: boolean;
  readonly unit: string;
}

const FIGURES: readonly Figure[] = [
  { name: '4 KiB random read, time', of: (run) => run['read-4k'].msPerOperation, unit: 'ms' },
  { name: '4 KiB random read, p99', of: (run) => run['read-4k'].p99Ms, unit: 'ms' },
  { name: '4 KiB random write with fsync, time', of: (run) => run['write-4k'].msPerOperation, unit: 'ms' },
  { name: '4 KiB random write with fsync, p99 of the fsync', of: (run) => run['write-4k'].p99Ms, unit: 'ms' },
  {
    name: 'throughput of 1 MiB reads',
    of: (run) => run['read-1m'].megabytesPerSecond,
    isSpeed: true,
    unit: 'MB/s',
  },
  { name: '1 MiB reads, p99', of: (run) => run['read-1m'].p99Ms, unit: 'ms' },
  {
    name: 'throughput of 1 MiB writes',
    of: (run) => run['write-1m'].megabytesPerSecond,
    isSpeed: true,
    unit: 'MB/s',
  },
  { name: '1 MiB writes, p99', of: (run) => run['write-1m'].p99Ms, unit: 'ms' },
  { name: "fsync of etcd's log, mean", of: (run) => run.etcd.meanMs, unit: 'ms' },
  { name: "fsync of etcd's log, p99", of: (run) => run.etcd.p99Ms, unit: 'ms' },
];

/** What each kind of encryption costs: its times divided by those of the plain disk in the same round, and the plain disk's throughput by its own. */
export function costsOf(rounds: readonly DiskRound[]): readonly BenchResult[] {
  return (['encrypted', 'authenticated'] as const).flatMap((disk) =>
    FIGURES.map(({ name, of, isSpeed = false, unit }) => {
      const ours = rounds.map((round) => of(round[disk]));
      const plain = rounds.map(({ plain: run }) => of(run));
      const show = (values: readonly number[]): string => `${digitsOf(median(values))} ${unit}`;
      return {
        name: `${NAMES[disk]}: ${name}, ${isSpeed ? 'plain ÷ encrypted' : '÷ plain'}`,
        ...(isSpeed ? ratioOf(plain, ours) : ratioOf(ours, plain)),
        detail: `${show(ours)}, plain ${show(plain)}`,
      };
    }),
  );
}

function digitsOf(value: number): string {
  return value.toFixed(value < 1 ? 3 : value < 100 ? 1 : 0);
}
