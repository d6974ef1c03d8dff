import { performance } from 'node:perf_hooks';
import { SystemClock } from '../../internal/clock/index.ts';
import { memoryMbOf, startCuratorCluster, type CuratorCluster } from './curator-cluster.ts';
import { Crowd } from './curator-crowd.ts';
import { PUSHES, Pushes, SILENT_PUSHES, type PushFigures } from './curator-push.ts';
import { cpuSecondsOf } from './join-cluster.ts';
import { median, type BenchResult } from './result.ts';

const SIZES = [500, 1_000, 2_500, 5_000] as const;
const SETTLE_MS = 10_000;
const MEASURE_MS = 15_000;
const ROLE_CHANGES = 200;
const never = new AbortController().signal;
const clock = new SystemClock();

interface Figures {
  readonly nodes: number;
  readonly memoryKb: number;
  /** Of one core, for 1,000 heartbeats in a second. */
  readonly cpuPercent: number;
  readonly beatsPerSecond: number;
  readonly push: PushFigures;
}

/**
 * One curator, a real etcd, and thousands of nodes that watch themselves and the directory and beat as they are asked to.
 * The nodes share the processors with what they measure, so times are upper bounds.
 */
export async function runCuratorBench(): Promise<readonly BenchResult[]> {
  await using cluster = await startCuratorCluster();
  using crowd = new Crowd();
  const pushes = new Pushes(cluster, crowd);
  await clock.sleep(SETTLE_MS, never);
  const emptyMb = await memoryMbOf(cluster.pid);
  const figures: Figures[] = [];
  for (const size of SIZES) {
    await crowd.add(cluster, size - crowd.nodes.length);
    await clock.sleep(SETTLE_MS, never);
    figures.push({ ...(await measure(cluster, crowd, emptyMb)), push: await pushes.measure() });
  }
  const changes = await changeRoles(cluster, crowd);
  return resultsOf(figures, { emptyMb, changes, ends: crowd.ends });
}

async function measure(
  cluster: CuratorCluster,
  crowd: Crowd,
  emptyMb: number,
): Promise<Omit<Figures, 'push'>> {
  const [beats, cpu, startMs] = [crowd.beats, await cpuSecondsOf(cluster.pid), performance.now()];
  await clock.sleep(MEASURE_MS, never);
  const seconds = (performance.now() - startMs) / 1000;
  const beatsPerSecond = (crowd.beats - beats) / seconds;
  const share = ((await cpuSecondsOf(cluster.pid)) - cpu) / seconds;
  const memoryKb = (((await memoryMbOf(cluster.pid)) - emptyMb) * 1024) / crowd.nodes.length;
  return {
    nodes: crowd.nodes.length,
    memoryKb,
    cpuPercent: (100 * share * 1000) / beatsPerSecond,
    beatsPerSecond,
  };
}

/** From the operator's call until the node itself knows, one after the other, while all others beat. */
async function changeRoles({ owner }: CuratorCluster, crowd: Crowd): Promise<readonly number[]> {
  const latencies: number[] = [];
  const step = Math.floor(crowd.nodes.length / ROLE_CHANGES);
  for (const { nodeId } of crowd.nodes.filter((_, index) => index % step === 0).slice(0, ROLE_CHANGES)) {
    const told = crowd.told(nodeId);
    const startMs = performance.now();
    const mutation = { idempotencyKey: crypto.randomUUID() };
    await owner.setNodeRoles({ nodeId, roles: [], mutation }, { signal: never });
    latencies.push((await told) - startMs);
  }
  return latencies;
}

function resultsOf(
  figures: readonly Figures[],
  of: { readonly emptyMb: number; readonly changes: readonly number[]; readonly ends: readonly string[] },
): readonly BenchResult[] {
  const [small, large] = [figures[0], figures.at(-1)];
  if (small === undefined || large === undefined) throw new Error('nothing was measured');
  const sorted = [...of.changes].sort((a, b) => a - b);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? NaN;
  const times = large.nodes / small.nodes;
  return [
    {
      name: 'role change seen by the node, p99',
      value: round(p99),
      unit: 'ms',
      limit: 200,
      detail: `median ${round(median(sorted))} ms, with ${large.nodes} nodes connected and beating; all of them in one process beside the curator`,
      runs: sorted.length,
    },
    ...figures.flatMap((each): BenchResult[] => [
      {
        name: `memory of one node, ${each.nodes} nodes`,
        value: round(each.memoryKb / 1024, 3),
        unit: 'MB',
        detail: `a connection of mutual TLS, two watches, a stream of heartbeats; RssAnon over ${round(of.emptyMb)} MB without any`,
      },
      {
        name: `CPU per 1,000 heartbeats a second, ${each.nodes} nodes`,
        value: round(each.cpuPercent),
        unit: '%',
        detail: `of one core, at ${round(each.beatsPerSecond)} heartbeats a second`,
      },
      {
        name: `one change to all, ${each.nodes} nodes`,
        value: round(each.push.ms),
        unit: 'ms',
        detail: `from the call to the last node that knows, its decoding included, while all beat; a beat waited for at most ${round(each.push.slowestBeatMs)} ms; ${round(each.push.silentMs)} ms while nobody beats`,
        runs: PUSHES,
      },
      {
        name: `CPU of one change to all, for one of ${each.nodes} nodes`,
        value: round(each.push.cpuMs / each.nodes, 3),
        unit: 'ms',
        detail: "the curator's own, while nobody beats; the mean, with what it takes to collect its garbage",
        runs: SILENT_PUSHES,
      },
    ]),
    growth('memory', large.memoryKb, small.memoryKb, times),
    growth('CPU', large.cpuPercent, small.cpuPercent, times),
    growth('one change to all', large.push.ms / times, small.push.ms, times),
    growth('CPU of one change to all', large.push.cpuMs / times, small.push.cpuMs, times),
    {
      name: 'streams that ended',
      value: of.ends.length,
      unit: '',
      limit: 0,
      detail: [...new Set(of.ends)].slice(0, 3).join('; ') || 'none',
    },
  ];
}

/** What one node costs among all of them over what it costs among the fewest: 1 is linear. */
function growth(name: string, large: number, small: number, times: number): BenchResult {
  return {
    name: `${name}, for one of ${times} times as many nodes`,
    value: round(large / small, 2),
    unit: '×',
    limit: 1.3,
    detail: '1 is linear growth',
  };
}

function round(value: number, digits = 1): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}
