import { readdir, readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { SystemClock } from '../../../internal/clock/index.ts';
import type { CuratorCluster } from './curator-cluster.ts';
import type { SimulatedNodes } from './simulated-nodes.ts';
import { median } from '../result.ts';

export const PUSHES = 5;
/** A change is a thing by itself: heartbeats that waited for the one before have been answered. */
const PAUSE_MS = 3_000;
/**
 * Changes that are told in silence come in series, as many in each for few nodes as for many: V8 also collects everything
 * because there is silence, and that costs as much as there are nodes.
 */
const SERIES = 6;
const CHANGES_OF_SERIES = 2;
export const SILENT_PUSHES = SERIES * CHANGES_OF_SERIES;
const SILENCE_BEFORE_MS = 500;
/** What is written and collected after the last one knows is counted. */
const SILENCE_AFTER_MS = 1_500;
/** Heartbeats are 5 s apart: a node leaves out one and not the next, and stays far from being late. */
const BETWEEN_SERIES_MS = 6_000;
const PUSH_LIMIT_MS = 60_000;
const never = new AbortController().signal;
const clock = new SystemClock();

export interface PushFigures {
  /** From the call until the last node knows, while all of them send heartbeats. */
  readonly ms: number;
  /** The longest that a heartbeat waited for its answer meanwhile. */
  readonly slowestHeartbeatMs: number;
  /** The same while no node sends heartbeats. */
  readonly silentMs: number;
  /**
   * Of the curator alone while no node sends heartbeats: the mean. Time of a processor is a sum, and a collection is paid for by all
   * changes whose garbage it takes: a median has none of it among few nodes, and one for each change among many.
   */
  readonly cpuMs: number;
}

/** The curator moves: every node is told where it is now. */
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

  /** One change after the other, without what else is going on. */
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
          `${wanted - crowd.directories} nodes were not told; ${crowd.ends.slice(0, 3).join('; ')}`,
        );
      await clock.sleep(2, never);
    }
    return performance.now() - startMs;
  }
}

/** Of all threads of a process, V8's own among them, finer than the ticks of its `stat`. */
async function cpuMsOf(pid: number): Promise<number> {
  const times = (await readdir(`/proc/${pid}/task`)).map(async (thread) => {
    const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
    return Number(text.split(' ')[0]) / 1e6;
  });
  return (await Promise.all(times)).reduce((sum, each) => sum + each, 0);
}
