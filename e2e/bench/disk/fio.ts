import { z } from 'zod';

/** The part of each disk that fio reads and writes. */
const REGION_MIB = 192;

/** What fio does on each disk, one after the other, without the page cache. */
const WORKLOADS = {
  'read-4k': ['--rw=randread', '--bs=4k', '--ioengine=psync'],
  // Each write is made durable, as a database does.
  'write-4k': ['--rw=randwrite', '--bs=4k', '--ioengine=psync', '--fsync=1'],
  'read-1m': ['--rw=read', '--bs=1M', '--ioengine=libaio', '--iodepth=4'],
  'write-1m': ['--rw=write', '--bs=1M', '--ioengine=libaio', '--iodepth=4'],
} as const;
/** One of the patterns of reads or writes. */
export type WorkloadName = keyof typeof WORKLOADS;

/** The line of a shell that runs the workload on a device and prints its report. */
export function fioCommand(name: WorkloadName, device: string, seconds: number): string {
  const args = [
    ...[`--name=${name}`, `--filename=${device}`, `--size=${REGION_MIB}M`, '--direct=1'],
    ...['--time_based', `--runtime=${seconds}`, '--output-format=json', '--output=/run/fio.json'],
    ...['--randseed=1', '--norandommap', ...WORKLOADS[name]],
  ];
  return `fio ${args.join(' ')} && cat /run/fio.json`;
}

/** The figures of one run. */
export interface FioRun {
  readonly msPerOperation: number;
  readonly megabytesPerSecond: number;
  /** 99th percentile of the time of one read or write; of its fsync, if each write has one. */
  readonly p99Ms: number;
}

const latencies = z.object({
  N: z.number(),
  percentile: z.record(z.string(), z.number().nonnegative()).optional(),
});
const direction = z.object({
  bw_bytes: z.number().nonnegative(),
  iops: z.number().nonnegative(),
  clat_ns: latencies,
});
const report = z.object({
  jobs: z.tuple([
    z.object({
      error: z.literal(0),
      read: direction,
      write: direction,
      sync: z.object({ lat_ns: latencies }),
    }),
  ]),
});

/** Parses a report of fio (`--output-format=json`). @throws Error for a run with an error, or without operations */
export function parseFio(text: string, name: WorkloadName): FioRun {
  const parsed = report.safeParse(jsonOf(text));
  if (!parsed.success) throw new Error(`fio ${name}: ${parsed.error.message}`);
  const [job] = parsed.data.jobs;
  const { iops, bw_bytes: bytes, clat_ns: completion } = name.startsWith('read') ? job.read : job.write;
  const p99Ns = (job.sync.lat_ns.N > 0 ? job.sync.lat_ns : completion).percentile?.['99.000000'];
  if (!(iops > 0) || p99Ns === undefined) throw new Error(`fio ${name}: no operations`);
  return { msPerOperation: 1e3 / iops, megabytesPerSecond: bytes / 1e6, p99Ms: p99Ns / 1e6 };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`fio wrote something else than a report: ${text.slice(0, 200)}`, { cause });
  }
}
