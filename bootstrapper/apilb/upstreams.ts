import type { Endpoint } from './config.ts';

/** Time for which an upstream with a failed connection is tried last. */
const COOL_DOWN_MS = 5_000;

/**
 * Result of the health checks (health-checks.ts). An `unready` upstream answers, but reports that it is not
 * ready.
 */
export type Verdict = 'unknown' | 'healthy' | 'unready' | 'silent';

/**
 * An upstream with an unknown state counts as healthy, so that a balancer forwards connections right after
 * its start.
 */
const RANKS: Readonly<Record<Verdict, number>> = { unknown: 0, healthy: 0, unready: 1, silent: 2 };

/**
 * The order in which upstreams are tried: healthy, then unready, then silent. In each group, upstreams with
 * recent failures come last. No upstream is left out: if all look unhealthy, the first one that accepts a
 * connection gets it.
 */
export class UpstreamPool {
  readonly #verdictOf: (upstream: Endpoint) => Verdict;
  #upstreams: readonly Endpoint[];
  readonly #failedAtMs = new Map<string, number>();

  constructor(upstreams: readonly Endpoint[], verdictOf: (upstream: Endpoint) => Verdict = () => 'unknown') {
    this.#upstreams = upstreams;
    this.#verdictOf = verdictOf;
  }

  replace(upstreams: readonly Endpoint[]): void {
    this.#upstreams = upstreams;
    const kept = new Set(upstreams.map(upstreamKey));
    for (const key of this.#failedAtMs.keys()) if (!kept.has(key)) this.#failedAtMs.delete(key);
  }

  /** All upstreams, the most preferred first. */
  inOrder(nowMs: number): readonly Endpoint[] {
    const failedAt = (upstream: Endpoint): number => {
      const at = this.#failedAtMs.get(upstreamKey(upstream));
      return at === undefined || nowMs - at > COOL_DOWN_MS ? -Infinity : at;
    };
    const rank = (upstream: Endpoint): number => RANKS[this.#verdictOf(upstream)];
    return [...this.#upstreams].sort(
      (a, b) => rank(a) - rank(b) || Math.sign(failedAt(a) - failedAt(b)) || 0,
    );
  }

  recordFailure(upstream: Endpoint, nowMs: number): void {
    this.#failedAtMs.set(upstreamKey(upstream), nowMs);
  }

  recordSuccess(upstream: Endpoint): void {
    this.#failedAtMs.delete(upstreamKey(upstream));
  }
}

/** Key that identifies an upstream in maps. */
export function upstreamKey(upstream: Endpoint): string {
  return `${upstream.host} ${upstream.port}`;
}
