import { performance } from 'node:perf_hooks';
import { SystemClock } from '../../../internal/clock/index.ts';
import { memoryMbOf, startCuratorCluster, type CuratorCluster } from './curator-cluster.ts';
import { SimulatedNodes } from './simulated-nodes.ts';
import type { SimulatedNode } from './simulated-node.ts';
import { PUSHES, DirectoryPushes, SILENT_PUSHES, type PushFigures } from './directory-push.ts';
import { cpuSecondsOf } from '../join/join-cluster.ts';
import { median, type BenchResult } from '../result.ts';

const SIZES = [500, 1_000, 2_500, 5_000] as const;
const SETTLE_MS = 10_000;
const MEASURE_MS = 15_000;
const ROLE_CHANGES = 200;
const never = new AbortController().signal;
const clock = new SystemClock();

interface RoleChanges {
  /** Number of nodes that are connected and send heartbeats during the measurement. */
  readonly nodes: number;
  readonly latenciesMs: readonly number[];
}

interface Figures {
  readonly nodes: number;
  readonly memoryKb: number;
  /** CPU usage of the curator at 1,000 heartbeats per second, in percent of one core. */
  readonly cpuPercent: number;
  readonly heartbeatsPerSecond: number;
  readonly push: PushFigures;
}

/**
 * Measures one curator with a real etcd and thousands of nodes. Each node watches itself and the directory,
 * and sends heartbeats at the requested interval. The nodes share the processors with the curator, so the
 * measured times are upper bounds.
 */
export async function runCuratorBench(): Promise<readonly BenchResult[]> {
  await using cluster = await startCuratorCluster();
  using crowd = new SimulatedNodes();
  const pushes = new DirectoryPushes(cluster, crowd);
  await clock.sleep(SETTLE_MS, never);
  const emptyMb = await memoryMbOf(cluster.pid);
  const figures: Figures[] = [];
  const changes: RoleChanges[] = [];
  for (const size of SIZES) {
    const others = crowd.nodes.length;
    await crowd.add(cluster, size - others);
    await clock.sleep(SETTLE_MS, never);
    const added = crowd.nodes.slice(others);
    figures.push({ ...(await measure(cluster, crowd, emptyMb)), push: await pushes.measure() });
    if (size === SIZES[0] || size === SIZES.at(-1)) changes.push(await changeRoles(cluster, crowd, added));
  }
  return resultsOf(figures, { emptyMb, changes, crowd });
}

async function measure(
  cluster: CuratorCluster,
  crowd: SimulatedNodes,
  emptyMb: number,
): Promise<Omit<Figures, 'push'>> {
  const [heartbeats, cpu, startMs] = [crowd.heartbeats, await cpuSecondsOf(cluster.pid), performance.now()];
  await clock.sleep(MEASURE_MS, never);
  const seconds = (performance.now() - startMs) / 1000;
  const heartbeatsPerSecond = (crowd.heartbeats - heartbeats) / seconds;
  const share = ((await cpuSecondsOf(cluster.pid)) - cpu) / seconds;
  const memoryKb = (((await memoryMbOf(cluster.pid)) - emptyMb) * 1024) / crowd.nodes.length;
  return {
    nodes: crowd.nodes.length,
    memoryKb,
    cpuPercent: (100 * share * 1000) / heartbeatsPerSecond,
    heartbeatsPerSecond,
  };
}

/**
 * Measures the time from the operator's call until the node learns its new roles. The changes run one after
 * the other while all nodes send heartbeats. Each node is changed once at most.
 */
async function changeRoles(
  { owner }: CuratorCluster,
  crowd: SimulatedNodes,
  among: readonly SimulatedNode[],
): Promise<RoleChanges> {
  await clock.sleep(SETTLE_MS, never);
  const latenciesMs: number[] = [];
  const step = Math.floor(among.length / ROLE_CHANGES);
  for (const { nodeId } of among.filter((_, index) => index % step === 0).slice(0, ROLE_CHANGES)) {
    const told = crowd.told(nodeId);
    const startMs = performance.now();
    const mutation = { idempotencyKey: crypto.randomUUID() };
    await owner.setNodeRoles({ nodeId, roles: [], mutation }, { signal: never });
    latenciesMs.push((await told) - startMs);
  }
  return { nodes: crowd.nodes.length, latenciesMs };
}

function resultsOf(
  figures: readonly Figures[],
  of: { readonly emptyMb: number; readonly changes: readonly RoleChanges[]; readonly crowd: SimulatedNodes },
): readonly BenchResult[] {
  const [small, large] = [figures[0], figures.at(-1)];
  if (small === undefined || large === undefined) throw new Error('nothing was measured');
  const times = large.nodes / small.nodes;
  return [
    ...of.changes.map(roleChange),
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
        detail: `of one core, at ${round(each.heartbeatsPerSecond)} heartbeats a second`,
      },
      {
        name: `one change to all, ${each.nodes} nodes`,
        value: round(each.push.ms),
        unit: 'ms',
        detail: `from the call to the last node that knows, its decoding included, while all nodes send heartbeats; a heartbeat waited for at most ${round(each.push.slowestHeartbeatMs)} ms; ${round(each.push.silentMs)} ms while no node sends heartbeats`,
        runs: PUSHES,
      },
      {
        name: `CPU of one change to all, for one of ${each.nodes} nodes`,
        value: round(each.push.cpuMs / each.nodes, 3),
        unit: 'ms',
        detail:
          "the curator's own, while no node sends heartbeats; the mean, with what it takes to collect its garbage",
        runs: SILENT_PUSHES,
      },
    ]),
    growth('memory', large.memoryKb, small.memoryKb, times),
    growth('CPU', large.cpuPercent, small.cpuPercent, times),
    growth('one change to all', large.push.ms / times, small.push.ms, times),
    growth('CPU of one change to all', large.push.cpuMs / times, small.push.cpuMs, times),
    {
      name: 'streams that ended',
      value: of.crowd.ends.length,
      unit: '',
      limit: 0,
      detail: [...new Set(of.crowd.ends)].slice(0, 3).join('; ') || 'none',
    },
    {
      name: 'nodes taken for late',
      value: of.crowd.late,
      unit: '',
      limit: 0,
      detail: 'each time that a node that sends heartbeats was told that its heartbeats have stopped',
    },
  ];
}

function roleChange({ nodes, latenciesMs }: RoleChanges): BenchResult {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  return {
    name: `role change seen by the node, p99, ${nodes} nodes`,
    value: round(sorted[Math.floor(sorted.length * 0.99)] ?? NaN),
    unit: 'ms',
    limit: 200,
    detail: `median ${round(median(sorted))} ms; one after the other, while ${nodes} nodes are connected and send heartbeats and nothing else happens; all of them in one process beside the curator`,
    runs: sorted.length,
  };
}

/** The cost per node with many nodes, divided by the cost per node with few nodes; 1 is linear. */
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
