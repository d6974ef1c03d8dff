import type { Clock } from '../../../internal/clock/index.ts';

/** Heartbeats of a node that are remembered: those of about 20 s. */
const MAX_SAMPLES = 4;
/** A single heartbeat may have waited for its connection, or while a machine was suspended. */
const MIN_SAMPLES = 2;
/** Maximum number of nodes whose clocks are remembered. */
const MAX_NODES = 8_192;
/** The end of what a date of JavaScript can be (ECMA-262, "Time Values and Time Range"). */
const MAX_TIME_MS = 8_640_000_000_000_000n;

/** The clock of one node. */
export interface NodeClockOffset {
  readonly nodeId: string;
  /** How far the clock of the node is ahead of the clock of this curator; negative if it is behind. */
  readonly offsetMs: number;
}

/** What the heartbeats on one stream show of the clock of their node; to be disposed of when the stream ends. */
export interface HeartbeatClock extends Disposable {
  /** @param sentMs the clock of the node, as the node tells it; undefined from an older agent */
  note(sentMs: bigint | undefined): void;
}

/**
 * The clocks of the nodes whose heartbeats this curator receives, in memory only: the curator that receives them next measures them again
 * within two heartbeats.
 *
 * A heartbeat that is delayed makes its node look behind by the delay, and never ahead. So the least delayed of the last heartbeats
 * counts (as in the clock filter of NTP, RFC 5905, section 10).
 */
export class NodeClocks {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #nodes = new Map<string, readonly number[]>();

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** Begins with the heartbeats of a node on a new stream. */
  open(nodeId: string): HeartbeatClock {
    let samples: readonly number[] = [];
    return {
      note: (sentMs) => {
        if (sentMs === undefined || sentMs <= 0n || sentMs > MAX_TIME_MS) return;
        if (!this.#nodes.has(nodeId) && this.#nodes.size >= MAX_NODES) return;
        samples = [...samples, Number(sentMs) - this.#clock.nowMs()].slice(-MAX_SAMPLES);
        this.#nodes.set(nodeId, samples);
      },
      [Symbol.dispose]: () => {
        // A newer stream of the node may have begun.
        if (this.#nodes.get(nodeId) === samples) this.#nodes.delete(nodeId);
      },
    };
  }

  /** The clock of each node that has sent enough heartbeats. */
  offsets(): readonly NodeClockOffset[] {
    return [...this.#nodes].flatMap(([nodeId, samples]) =>
      samples.length < MIN_SAMPLES ? [] : [{ nodeId, offsetMs: Math.round(Math.max(...samples)) }],
    );
  }
}
