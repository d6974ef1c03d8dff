import { setTimeout as delay } from 'node:timers/promises';
import { StoryCluster, withLifetimes } from '../../cluster/harness/story-cluster.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { median, type BenchResult } from '../result.ts';

const NAME = 'bench-day';
const MB = 1e6;
const KIB = 1024;
/** Certificates are renewed after four minutes, with new evidence: more often in this time than in weeks of operation. */
const LIFETIME_MINUTES = 6;
const DAY_MS = 24 * 60_000;
const ROUND_MS = 40_000;
const SAMPLE_MS = 10_000;
const AGENT_LIMIT_MB = 48;
const GROWTH_LIMIT_MB = 2;
/** A worker that becomes a control plane and a worker again, in turns. */
const CHANGING = 'n3';
/** The programs that are measured: unit, node, and the limit of its memory. One without a limit restarts with each new certificate. */
const PROGRAMS = [
  { what: 'agent of a control plane', unit: 'bootstrapper', node: 'n1', limit: AGENT_LIMIT_MB },
  { what: 'agent of a worker', unit: 'bootstrapper', node: 'n2', limit: AGENT_LIMIT_MB },
  { what: 'agent of a node whose role changes', unit: 'bootstrapper', node: CHANGING, limit: AGENT_LIMIT_MB },
  { what: 'join service', unit: 'cluster-joinservice', node: 'n1', limit: undefined },
] as const;

/** Anonymous memory in bytes, with the time since the beginning in ms. */
interface Sample {
  readonly atMs: number;
  readonly bytes: number;
}

/**
 * Runs a cluster of one control plane and two workers for 24 minutes with more work than a day has: certificates that are renewed every four
 * minutes with new evidence, changes of a role, queries of status, doctor, logs and nodes. Heartbeats keep their own pace.
 */
export async function runDay(): Promise<readonly BenchResult[]> {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 2 }, withLifetimes(LIFETIME_MINUTES));
  await cluster.up();
  const startMs = performance.now();
  const stop = new AbortController();
  const samples = PROGRAMS.map((): Sample[] => []);
  const pids = await Promise.all(PROGRAMS.map(({ node, unit }) => cluster.pidOf(node, unit)));
  const sampling = (async () => {
    for (;;) {
      const read = PROGRAMS.map(({ node, unit, limit }, index) =>
        limit === undefined
          ? cluster
              .pidOf(node, unit)
              .then((pid) => anonymousBytes(cluster, node, pid))
              .catch(() => undefined) // It restarts at this moment.
          : anonymousBytes(cluster, node, pids[index] ?? ''),
      );
      const atMs = performance.now() - startMs;
      (await Promise.all(read)).forEach((bytes, index) => {
        if (bytes !== undefined) samples[index]?.push({ atMs, bytes });
      });
      await delay(SAMPLE_MS, undefined, { signal: stop.signal });
    }
  })();
  const work = workUntil(startMs + DAY_MS, bench, cluster);
  try {
    await Promise.race([work, sampling]);
  } finally {
    stop.abort();
    await sampling.catch(() => undefined);
  }
  const rounds = await work;
  return PROGRAMS.flatMap((program, index) => resultsOf(program, samples[index] ?? [], rounds));
}

/** Returns the number of rounds. */
async function workUntil(endMs: number, bench: Harness, cluster: StoryCluster): Promise<number> {
  const workspace = ['--workspace', await cluster.workspace()];
  const drain = ['--force', '--delete-emptydir-data', '--yes'];
  for (let round = 1; ; round++) {
    const roundMs = performance.now();
    if (roundMs > endMs) return round;
    await bench.must(...workspace, 'node', 'ls');
    for (const node of ['n1', 'n2']) await bench.must(...workspace, 'node', 'logs', node);
    // Certificates of minutes are findings of both, so their exit codes say nothing here.
    for (const command of ['status', 'doctor']) await bench.cli(...workspace, command);
    if (round % 4 === 1)
      await bench.must(...workspace, 'node', 'set-role', CHANGING, '--control-plane', '--worker', ...drain);
    if (round % 4 === 3) await bench.must(...workspace, 'node', 'set-role', CHANGING, '--worker', ...drain);
    const restMs = ROUND_MS - (performance.now() - roundMs);
    if (restMs > 0) await delay(restMs, undefined, { signal: bench.signal });
  }
}

/** Fails if the process has ended: a restart would hide its growth. */
async function anonymousBytes(cluster: StoryCluster, node: string, pid: string): Promise<number> {
  const status = await cluster.run(node, 'cat', `/proc/${pid}/status`);
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) * KIB;
}

function resultsOf(
  { what, limit }: (typeof PROGRAMS)[number],
  samples: readonly Sample[],
  rounds: number,
): readonly BenchResult[] {
  const quarter = (n: number): readonly number[] =>
    samples
      .filter(({ atMs }) => Math.min(3, Math.floor((atMs * 4) / DAY_MS)) === n)
      .map(({ bytes }) => bytes / MB);
  const figures = [0, 1, 2, 3].map((n) => `${median(quarter(n)).toFixed(1)} MB`);
  const peak = Math.max(...quarter(2), ...quarter(3));
  return [
    {
      name: `${what}, at the end of an accelerated day: anonymous memory`,
      ...{ value: Math.max(...quarter(3)), unit: 'MB', ...(limit === undefined ? {} : { limit }) },
      detail: `the highest in the last quarter, ${peak.toFixed(1)} MB in the second half; medians of the quarters ${figures.join(', ')}; ${rounds} rounds`,
    },
    ...(limit === undefined
      ? []
      : [
          {
            name: `${what}: growth in the second half`,
            value: Math.max(0, median(quarter(3)) - median(quarter(2))),
            ...{ unit: 'MB' as const, limit: GROWTH_LIMIT_MB },
            detail: 'the median of the last quarter, less that of the third',
          },
        ]),
  ];
}
