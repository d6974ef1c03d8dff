import { ROUND_TRIP_FLOOR_MS, ROUND_TRIP_WARNING_MS } from '../../internal/doctor/index.ts';

/** The median of this many answers counts. Two of them may be late: a packet was lost, or this process was busy. */
const SAMPLES = 5;
/** A round trip is reported again when it is this many times longer or shorter. */
const FACTOR = 2;
/** A slow peer, above the threshold of the doctor, is reported as fast again below this. */
const FAST_AGAIN_MS = 0.8 * ROUND_TRIP_WARNING_MS;

/** How long packets usually take to a peer and back. */
export interface RoundTrip {
  readonly address: string;
  /** A whole number: the median when it was reported, at least `ROUND_TRIP_FLOOR_MS`. */
  readonly ms: number;
}

interface Measured {
  /** The last round trips since the figure was reported. */
  readonly samples: readonly number[];
  readonly reportedMs: number | undefined;
}

/**
 * The usual round trip to each peer, from single ones. Every change of the status of a node is a write to etcd, so the
 * figures stay as they are while round trips vary: a figure changes only if the median has doubled or halved, or has passed
 * the threshold of the doctor, and not before as many round trips were measured as a median needs.
 */
export class RoundTrips {
  readonly #peers = new Map<string, Measured>();

  /** The figures of all peers that were measured often enough. */
  get reported(): readonly RoundTrip[] {
    return [...this.#peers].flatMap(([address, { reportedMs: ms }]) =>
      ms === undefined ? [] : [{ address, ms }],
    );
  }

  /** Adds a single round trip. */
  add(address: string, ms: number): void {
    const { samples: before = [], reportedMs } = this.#peers.get(address) ?? {};
    const samples = [...before, ms].slice(-SAMPLES);
    const medianMs = Math.max(ROUND_TRIP_FLOOR_MS, medianOf(samples));
    const isNews = samples.length === SAMPLES && differs(medianMs, reportedMs);
    this.#peers.set(
      address,
      isNews ? { samples: [], reportedMs: Math.round(medianMs) } : { samples, reportedMs },
    );
  }

  /** Forgets every peer that is not in this list. */
  keepOnly(peers: readonly string[]): void {
    for (const address of this.#peers.keys()) if (!peers.includes(address)) this.#peers.delete(address);
  }
}

/** Whether a median is to be reported instead of the figure that was reported last. */
function differs(medianMs: number, reportedMs: number | undefined): boolean {
  if (reportedMs === undefined) return true;
  if (medianMs >= FACTOR * reportedMs || medianMs <= reportedMs / FACTOR) return true;
  return reportedMs > ROUND_TRIP_WARNING_MS
    ? medianMs < FAST_AGAIN_MS
    : Math.round(medianMs) > ROUND_TRIP_WARNING_MS;
}

/** The middle one. @param samples at least one */
function medianOf(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 2)] ?? 0;
}
