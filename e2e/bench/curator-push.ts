import { readdir, readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { SystemClock } from '../../internal/clock/index.ts';
import type { CuratorCluster } from './curator-cluster.ts';
import type { Crowd } from './curator-crowd.ts';
import { median } from './result.ts';

export const PUSHES = 5;
/** Enough for the curator's collections of all garbage, of which one falls on some changes and not on others. */
export const SILENT_PUSHES = 12;
/** A change is a thing by itself: beats that waited for the one before have been answered. */
const PAUSE_MS = 3_000;
/** Before and after a change that is told in silence. Beats are 5 s apart: each node leaves out one at most. */
const SILENCE_MS = 1_000;
const PUSH_LIMIT_MS = 60_000;
const never = new AbortController().signal;
const clock = new SystemClock();

export interface PushFigures {
  /** From the call until the last node knows, while all of them beat. */
  readonly ms: number;
  /** The longest that a beat waited for its answer meanwhile. */
  readonly slowestBeatMs: number;
  /** The same while nobody beats. */
  readonly silentMs: number;
  /**
   * Of the curator alone while nobody beats: the mean. Time of a processor is a sum, and a collection is paid for by all
   * changes whose garbage it takes: a median has none of it among few nodes, and one for each change among many.
   */
  readonly cpuMs: number;
}

/** The curator moves: every node is told where it is now. */
export class Pushes {
  readonly #cluster: CuratorCluster;
  readonly #crowd: Crowd;
  #count = 0;

  constructor(cluster: CuratorCluster, crowd: Crowd) {
    this.#cluster = cluster;
    this.#crowd = crowd;
  }

  async measure(): Promise<PushFigures> {
    const times: number[] = [];
    const beats: number[] = [];
    const silent: number[] = [];
    const cpu: number[] = [];
    for (let i = 0; i < PUSHES; i++) {
      await clock.sleep(PAUSE_MS, never);
      this.#crowd.slowestBeatMs = 0;
      times.push(await this.#push());
      beats.push(this.#crowd.slowestBeatMs);
    }
    for (let i = 0; i < SILENT_PUSHES; i++) {
      await clock.sleep(PAUSE_MS, never);
      const alone = await this.#pushInSilence();
      silent.push(alone.ms);
      cpu.push(alone.cpuMs);
    }
    return {
      ms: median(times),
      slowestBeatMs: Math.max(...beats),
      silentMs: median(silent),
      cpuMs: cpu.reduce((sum, each) => sum + each, 0) / cpu.length,
    };
  }

  /** What it costs without what else is going on; what is written and collected after the last one knows included. */
  async #pushInSilence(): Promise<{ readonly ms: number; readonly cpuMs: number }> {
    using _silence = this.#crowd.silence();
    await clock.sleep(SILENCE_MS, never);
    const before = await cpuMsOf(this.#cluster.pid);
    const ms = await this.#push();
    await clock.sleep(SILENCE_MS, never);
    return { ms, cpuMs: (await cpuMsOf(this.#cluster.pid)) - before };
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
