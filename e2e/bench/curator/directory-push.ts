import { readdir, readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { SystemClock } from '../../../internal/clock/index.ts';
import type { CuratorCluster } from './curator-cluster.ts';
import type { SimulatedNodes } from './simulated-nodes.ts';
import { median } from '../result.ts';

export const PUSHES = 5;
/** Pause before each change, in which heartbeats finish that waited for the previous change. */
const PAUSE_MS = 3_000;
/**
 * Number of series of changes without heartbeats, the same for few and many nodes. Each series begins with an
 * idle time, in which V8 collects garbage at a cost that grows with the number of nodes.
 */
const SERIES = 6;
const CHANGES_OF_SERIES = 2;
export const SILENT_PUSHES = SERIES * CHANGES_OF_SERIES;
const SILENCE_BEFORE_MS = 500;
/**
 * A measurement continues for this long after the last node has received the change, so that it includes
 * later writes and garbage collection.
 */
const SILENCE_AFTER_MS = 1_500;
/**
 * Pause between two series, longer than the 5 s between heartbeats. So no node omits two heartbeats in a row,
 * and none counts as late.
 */
const BETWEEN_SERIES_MS = 6_000;
const PUSH_LIMIT_MS = 60_000;
const never = new AbortController().signal;
const clock = new SystemClock();

export interface PushFigures {
  /** Time from the call until the last node has received the change, while all nodes send heartbeats. */
  readonly ms: number;
  /** The longest time that a heartbeat waited for its response during the changes. */
  readonly slowestHeartbeatMs: number;
  /** Time from the call until the last node has received the change, while no node sends heartbeats. */
  readonly silentMs: number;
  /**
   * Mean CPU time of the curator per change while no node sends heartbeats. A median would be misleading, because
   * only a few changes include a garbage collection. With few nodes the median would contain none of its cost, and
   * with many nodes too much.
   */
  readonly cpuMs: number;
}

/** Changes the address of the curator in the directory, which every node then receives. */
export class DirectoryPushes {
  readonly #cluster: CuratorCluster;
  readonly #crowd: SimulatedNodes;
  #count = 0;

  constructor(cluster: CuratorCluster, crowd: SimulatedNodes) {
    this.#cluster = cluster;
    this.#crowd = crowd;
  }

  async measure(): Promise<PushFigures> {
    const times: number[] = [];
    const heartbeats: number[] = [];
    const silent: number[] = [];
    let cpuMs = 0;
    for (let i = 0; i < PUSHES; i++) {
      await clock.sleep(PAUSE_MS, never);
      this.#crowd.slowestHeartbeatMs = 0;
      times.push(await this.#push());
      heartbeats.push(this.#crowd.slowestHeartbeatMs);
    }
    for (let i = 0; i < SERIES; i++) {
      await clock.sleep(BETWEEN_SERIES_MS, never);
      const series = await this.#pushInSilence();
      silent.push(...series.times);
      cpuMs += series.cpuMs;
    }
    return {
      ms: median(times),
      slowestHeartbeatMs: Math.max(...heartbeats),
      silentMs: median(silent),
      cpuMs: cpuMs / silent.length,
    };
  }

  /** Makes one series of changes while no node sends heartbeats. */
  async #pushInSilence(): Promise<{ readonly times: readonly number[]; readonly cpuMs: number }> {
    using _silence = this.#crowd.silence();
    await clock.sleep(SILENCE_BEFORE_MS, never);
    const before = await cpuMsOf(this.#cluster.pid);
    const times: number[] = [];
    for (let i = 0; i < CHANGES_OF_SERIES; i++) times.push(await this.#push());
    await clock.sleep(SILENCE_AFTER_MS, never);
    return { times, cpuMs: (await cpuMsOf(this.#cluster.pid)) - before };
  }

  async #push(): Promise<number> {
    const { first } = this.#cluster;
    const crowd = this.#crowd;
    const wanted = crowd.directories + crowd.nodes.length;
    const curatorEndpoint = `192.0.2.1:${++this.#count}`;
    const startMs = performance.now();
    await first.updateNodeStatus({ status: { address: '192.0.2.1', curatorEndpoint } }, { signal: never });
    while (crowd.directories < wanted) {
      if (performance.now() - startMs > PUSH_LIMIT_MS)
        throw new Error(
          `${wanted - crowd.directories} nodes have not received the change; ${crowd.ends.slice(0, 3).join('; ')}`,
        );
      await clock.sleep(2, never);
    }
    return performance.now() - startMs;
  }
}

/**
 * CPU time of all threads of a process, including those of V8. It is more precise than the clock ticks in
 * /proc/PID/stat.
 */
async function cpuMsOf(pid: number): Promise<number> {
  const times = (await readdir(`/proc/${pid}/task`)).map(async (thread) => {
    const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
    return Number(text.split(' ')[0]) / 1e6;
  });
  return (await Promise.all(times)).reduce((sum, each) => sum + each, 0);
}
