import { connect } from 'node:net';
import { withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { formatEndpoint } from '../../../internal/endpoint/index.ts';

/** Health socket of the node-local balancer, in the RuntimeDirectory of its systemd unit. */
export const APILB_HEALTH_SOCKET = '/run/cluster-apilb/health.sock';
const ANSWER_MS = 1_000;
const MAX_CHARS = 64 * 1024;
const MAX_REASON_CHARS = 200;
const MAX_UPSTREAMS = 64;

/** The health of an API server as the balancer of this node reports it. */
export interface ApiServerHealth {
  /** "host:port" */
  readonly server: string;
  readonly verdict: 'unknown' | 'healthy' | 'unready' | 'silent';
  readonly sinceMs: number;
  readonly why: string;
  readonly connections: number;
}

const VERDICTS = ['unknown', 'healthy', 'unready', 'silent'] as const;

/**
 * Reads the health of the API servers from the balancer of this node. Rejects if the balancer does not answer
 * within 1 s. The balancer is unprivileged, so the agent only displays its answer and decides nothing by it.
 */
export async function readBalancerHealth(
  path: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<readonly ApiServerHealth[]> {
  const what = 'reading the health of the API servers from the balancer';
  const text = await withTimeout({ what, ms: ANSWER_MS, clock, signal }, (child) => answerOf(path, child));
  return parseBalancerHealth(text);
}

/** @throws SyntaxError if the text is not the JSON that a balancer writes */
export function parseBalancerHealth(text: string): readonly ApiServerHealth[] {
  const { upstreams } = (JSON.parse(text) ?? {}) as { readonly upstreams?: unknown };
  if (!Array.isArray(upstreams) || upstreams.length > MAX_UPSTREAMS)
    throw new SyntaxError('upstreams: expected a list');
  return upstreams.map(serverFrom);
}

/** One sentence about the unhealthy API servers; undefined if all of them are healthy. */
export function describeUnhealthyServers(servers: readonly ApiServerHealth[]): string | undefined {
  const bad = servers.filter(({ verdict }) => verdict === 'silent' || verdict === 'unready');
  if (bad.length === 0) return undefined;
  const named = bad.map(({ server, why }) => `${server} (${why})`).join(', ');
  return `${bad.length} of ${servers.length} API servers unhealthy: ${named}`;
}

function serverFrom(value: unknown): ApiServerHealth {
  const { upstream, verdict, sinceMs, why, connections } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const { host, port } = (upstream ?? {}) as Readonly<Record<string, unknown>>;
  const known = VERDICTS.find((each) => each === verdict);
  if (
    typeof host !== 'string' ||
    typeof port !== 'number' ||
    known === undefined ||
    typeof sinceMs !== 'number' ||
    typeof why !== 'string' ||
    typeof connections !== 'number'
  )
    throw new SyntaxError('upstreams: expected an upstream with its health');
  const server = formatEndpoint(host, port);
  return { server, verdict: known, sinceMs, why: why.slice(0, MAX_REASON_CHARS), connections };
}

async function answerOf(path: string, signal: AbortSignal): Promise<string> {
  const socket = connect({ path });
  const close = (): void => void socket.destroy();
  signal.addEventListener('abort', close, { once: true });
  try {
    let text = '';
    for await (const piece of socket) {
      text += String(piece);
      if (text.length > MAX_CHARS) throw new SyntaxError('the answer is too long');
    }
    return text;
  } finally {
    signal.removeEventListener('abort', close);
    socket.destroy();
  }
}
