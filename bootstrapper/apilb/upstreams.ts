import type { Endpoint } from './config.ts';

/** How long an upstream that failed is tried last. */
const COOL_DOWN_MS = 5_000;

/** What the health checks (./health-checks.ts) say of an upstream: `unready` answers, but should get no new connections. */
export type Verdict = 'unknown' | 'healthy' | 'unready' | 'silent';

/** Unknown ones count as healthy: a balancer that has just started passes connections on at once. */
const RANKS: Readonly<Record<Verdict, number>> = { unknown: 0, healthy: 0, unready: 1, silent: 2 };

/**
 * Which upstream to try, in order: healthy ones, then those that are not ready, then silent ones; within each of them those
 * whose connections failed lately last. None is left out: where all look unhealthy, the first that accepts a connection
 * gets it.
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

export function upstreamKey(upstream: Endpoint): string {
  return `${upstream.host} ${upstream.port}`;
}
