import type { Endpoint } from './config.ts';

/** How long an upstream that failed is tried last. */
const COOL_DOWN_MS = 5_000;

/**
 * Which upstream to try, in order: those that work before those that failed lately. Passive health only: the
 * connections themselves are the probes, so an idle balancer sends nothing.
 */
export class UpstreamPool {
  #upstreams: readonly Endpoint[];
  readonly #failedAtMs = new Map<string, number>();

  constructor(upstreams: readonly Endpoint[]) {
    this.#upstreams = upstreams;
  }

  replace(upstreams: readonly Endpoint[]): void {
    this.#upstreams = upstreams;
    const kept = new Set(upstreams.map(keyOf));
    for (const key of this.#failedAtMs.keys()) if (!kept.has(key)) this.#failedAtMs.delete(key);
  }

  inOrder(nowMs: number): readonly Endpoint[] {
    const failedAt = (upstream: Endpoint): number => {
      const at = this.#failedAtMs.get(keyOf(upstream));
      return at === undefined || nowMs - at > COOL_DOWN_MS ? -Infinity : at;
    };
    return [...this.#upstreams].sort((a, b) => Math.sign(failedAt(a) - failedAt(b)) || 0);
  }

  failed(upstream: Endpoint, nowMs: number): void {
    this.#failedAtMs.set(keyOf(upstream), nowMs);
  }

  worked(upstream: Endpoint): void {
    this.#failedAtMs.delete(keyOf(upstream));
  }
}

function keyOf(upstream: Endpoint): string {
  return `${upstream.host} ${upstream.port}`;
}
