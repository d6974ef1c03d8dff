/** How long an upstream that failed is tried last. */
const COOL_DOWN_MS = 5_000;

/** The balancer's configuration file, written by the agent whenever the directory changes. */
export interface ApilbConfig {
  readonly listen: { readonly host: string; readonly port: number };
  /** API servers, the one to prefer first. */
  readonly upstreams: readonly { readonly host: string; readonly port: number }[];
}

export type Upstream = ApilbConfig['upstreams'][number];

/** Strict: an unknown shape keeps the old configuration in force. Throws a SyntaxError. */
export function parseApilbConfig(text: string): ApilbConfig {
  const value = JSON.parse(text) as Partial<ApilbConfig> | null;
  if (typeof value !== 'object' || value === null) throw new SyntaxError('an object is expected');
  const { listen, upstreams } = value;
  if (!isEndpoint(listen)) throw new SyntaxError('listen: host and port are expected');
  if (!Array.isArray(upstreams) || upstreams.length === 0 || !upstreams.every(isEndpoint)) {
    throw new SyntaxError('upstreams: at least one host and port are expected');
  }
  return { listen, upstreams };
}

function isEndpoint(value: unknown): value is Upstream {
  const { host, port } = (value ?? {}) as Partial<Upstream>;
  return (
    typeof host === 'string' &&
    host !== '' &&
    Number.isInteger(port) &&
    Number(port) > 0 &&
    Number(port) < 65536
  );
}

/**
 * Which upstream to try, in order: those that work before those that failed lately. Passive health only: the
 * connections themselves are the probes, so an idle balancer sends nothing.
 */
export class UpstreamPool {
  #upstreams: readonly Upstream[];
  readonly #failedAtMs = new Map<string, number>();

  constructor(upstreams: readonly Upstream[]) {
    this.#upstreams = upstreams;
  }

  replace(upstreams: readonly Upstream[]): void {
    this.#upstreams = upstreams;
    const kept = new Set(upstreams.map(keyOf));
    for (const key of this.#failedAtMs.keys()) if (!kept.has(key)) this.#failedAtMs.delete(key);
  }

  inOrder(nowMs: number): readonly Upstream[] {
    const failedAt = (upstream: Upstream): number => {
      const at = this.#failedAtMs.get(keyOf(upstream));
      return at === undefined || nowMs - at > COOL_DOWN_MS ? -Infinity : at;
    };
    return [...this.#upstreams].sort((a, b) => Math.sign(failedAt(a) - failedAt(b)) || 0);
  }

  failed(upstream: Upstream, nowMs: number): void {
    this.#failedAtMs.set(keyOf(upstream), nowMs);
  }

  worked(upstream: Upstream): void {
    this.#failedAtMs.delete(keyOf(upstream));
  }
}

function keyOf(upstream: Upstream): string {
  return `${upstream.host} ${upstream.port}`;
}
