import { connect } from 'node:net';
import { withChildSignal } from '../../internal/cleanup/index.ts';
import { PORTS, urlHost } from '../../internal/endpoint/index.ts';

/** A busy peer takes a moment, and a packet that is lost once is sent again after 0.2 s or more (RFC 6298). */
const TIMEOUT_MS = 4_000;
/**
 * More than fits into one packet, also into a jumbo frame of 9,000 bytes. kube-proxy is a Go server with the default
 * limit of headers, 1 MiB (kubernetes/kubernetes, pkg/proxy/healthcheck).
 */
const PADDING = 'x'.repeat(10_000);

/** Whether full-size packets arrive at a node. `unknown`: the node does not answer, or refuses the connection. */
export type PacketVerdict = 'arrive' | 'lost' | 'unknown';

/**
 * Sends the kube-proxy of a node a request that needs full-size packets. Only if it is not answered, a small one shows
 * whether the size is the reason. Never rejects.
 */
export async function tryFullPackets(
  host: string,
  signal: AbortSignal,
  { port = PORTS.kubeProxyHealth, timeoutMs = TIMEOUT_MS }: { port?: number; timeoutMs?: number } = {},
): Promise<PacketVerdict> {
  return withChildSignal(signal, async (child) => {
    const to = { host, port, signal: child, timeout: timeoutMs };
    const large = await request(to, `X-Padding: ${PADDING}\r\n`);
    if (large !== 'silent') return large === 'answered' ? 'arrive' : 'unknown';
    return (await request(to, '')) === 'answered' ? 'lost' : 'unknown';
  });
}

/** `silent`: the connection is open, and nothing comes. `failed`: there was no connection, or it has ended. */
function request(
  to: {
    readonly host: string;
    readonly port: number;
    readonly signal: AbortSignal;
    readonly timeout: number;
  },
  header: string,
): Promise<'answered' | 'silent' | 'failed'> {
  return new Promise((resolve) => {
    const socket = connect(to);
    let outcome: 'silent' | 'failed' = 'failed';
    const end = (how: 'answered' | 'silent' | 'failed'): void => {
      socket.destroy();
      resolve(how);
    };
    socket.once('connect', () => {
      outcome = 'silent';
      socket.write(`GET /livez HTTP/1.1\r\nHost: ${urlHost(to.host)}\r\nConnection: close\r\n${header}\r\n`);
    });
    // Any answer proves that the request has arrived, also an error of HTTP.
    socket.once('data', () => end('answered'));
    socket.once('timeout', () => end(outcome));
    socket.once('error', () => end('failed'));
    socket.once('close', () => end('failed'));
  });
}
