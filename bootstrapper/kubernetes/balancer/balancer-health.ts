import { connect } from 'node:net';
import { z } from 'zod';
import { withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { formatEndpoint } from '../../../internal/endpoint/index.ts';

/** Health socket of the node-local balancer, in the RuntimeDirectory of its systemd unit. */
export const APILB_HEALTH_SOCKET = '/run/cluster-apilb/health.sock';
const ANSWER_MS = 1_000;
const MAX_CHARS = 64 * 1024;
const MAX_REASON_CHARS = 200;
const MAX_UPSTREAMS = 64;

const answerShape = z.object({
  upstreams: z
    .array(
      z.object({
        upstream: z.object({ host: z.string(), port: z.number() }),
        verdict: z.enum(['unknown', 'healthy', 'unready', 'silent']),
        sinceMs: z.number(),
        why: z.string(),
        connections: z.number(),
      }),
    )
    .max(MAX_UPSTREAMS),
});
type Answer = z.infer<typeof answerShape>['upstreams'][number];

/** The health of an API server, "host:port", as the balancer of this node reports it. */
export type ApiServerHealth = Readonly<Omit<Answer, 'upstream'>> & { readonly server: string };

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
  const { data, error } = answerShape.safeParse(JSON.parse(text));
  if (data === undefined)
    throw new SyntaxError('upstreams: expected upstreams with their health', { cause: error });
  return data.upstreams.map(({ upstream, why, ...health }) => ({
    ...health,
    server: formatEndpoint(upstream.host, upstream.port),
    why: why.slice(0, MAX_REASON_CHARS),
  }));
}

/** One sentence about the unhealthy API servers; undefined if all of them are healthy. */
export function describeUnhealthyServers(servers: readonly ApiServerHealth[]): string | undefined {
  const bad = servers.filter(({ verdict }) => verdict === 'silent' || verdict === 'unready');
  if (bad.length === 0) return undefined;
  const named = bad.map(({ server, why }) => `${server} (${why})`).join(', ');
  return `${bad.length} of ${servers.length} API servers unhealthy: ${named}`;
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
