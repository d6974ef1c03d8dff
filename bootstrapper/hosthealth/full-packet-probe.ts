import { MINUTE_MS, type Clock } from '../../internal/clock/index.ts';
import type { PacketVerdict } from './full-packets.ts';

/** While full-size packets arrive at every peer, one of them is tried in each interval. */
const WELL_MS = MINUTE_MS;
/** While they are lost on the way to some peers, these are tried in each interval too. */
const FAILING_MS = 20_000;
/** Once may be a peer that is busy, or that restarts. */
const LOSSES = 2;

/** What this node knows about the size of packets in the network of pods. */
export interface FullPackets {
  /** Peers that answer small requests, and none that needs full-size packets. */
  readonly lost: readonly string[];
  /** For how many peers this is known. */
  readonly judged: number;
}

/** Ports (injected dependencies) of `FullPacketProbe`. */
export interface FullPacketPorts {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly tryFullPackets: (host: string, signal: AbortSignal) => Promise<PacketVerdict>;
}

/**
 * Finds peers to which small packets pass and full-size packets do not: on the way, a network carries less than the
 * machines assume (MTU), and nobody tells them. A probe can take seconds, so that nobody waits for it.
 */
export class FullPacketProbe {
  readonly #ports: FullPacketPorts;
  /** How many times in a row full-size packets were lost on the way to each peer. */
  readonly #losses = new Map<string, number>();
  #startedMs = -Infinity;
  #last = '';
  #isRunning = false;

  constructor(ports: FullPacketPorts) {
    this.#ports = ports;
  }

  /** The result of the probes that have ended. */
  get found(): FullPackets {
    const judged = [...this.#losses].filter(([, count]) => count === 0 || count >= LOSSES);
    const lost = judged.filter(([, count]) => count > 0).map(([peer]) => peer);
    return { lost: lost.toSorted(), judged: judged.length };
  }

  /** To be called with each heartbeat. Starts a probe if it is time for one. @param peers those that answer */
  probe(peers: readonly string[], signal: AbortSignal): void {
    for (const peer of this.#losses.keys()) if (!peers.includes(peer)) this.#losses.delete(peer);
    const nowMs = this.#ports.clock.monotonicMs();
    const failing = peers.filter((peer) => (this.#losses.get(peer) ?? 0) > 0);
    const everyMs = failing.length > 0 ? FAILING_MS : WELL_MS;
    if (this.#isRunning || peers.length === 0 || nowMs - this.#startedMs < everyMs) return;
    this.#startedMs = nowMs;
    const others = peers.filter((peer) => !failing.includes(peer));
    const next = others[(others.indexOf(this.#last) + 1) % others.length];
    if (next !== undefined) this.#last = next;
    void this.#try([...failing, ...(next === undefined ? [] : [next])], signal);
  }

  async #try(peers: readonly string[], signal: AbortSignal): Promise<void> {
    this.#isRunning = true;
    await Promise.all(
      peers.map(async (peer) => {
        const verdict = await this.#ports.tryFullPackets(peer, signal);
        if (signal.aborted) return; // the verdict says nothing about the peer
        if (verdict === 'unknown') this.#losses.delete(peer);
        else this.#losses.set(peer, verdict === 'lost' ? (this.#losses.get(peer) ?? 0) + 1 : 0);
      }),
    );
    this.#isRunning = false;
  }
}
