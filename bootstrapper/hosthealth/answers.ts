import { connect } from 'node:net';
import { PORTS } from '../../internal/endpoint/index.ts';

const TIMEOUT_MS = 1_000;
/** Both listen on all addresses of every node. A firewall may close one of them to other nodes. */
const NODE_PORTS: readonly number[] = [PORTS.kubelet, PORTS.kubeProxyHealth];

/** Whether a node answers at this address in any way: it accepts a connection, or refuses it. */
export async function answers(host: string, signal: AbortSignal, ports = NODE_PORTS): Promise<boolean> {
  for (const port of ports) if (await answersAt({ host, port }, signal)) return true;
  return false;
}

function answersAt(
  to: { readonly host: string; readonly port: number },
  signal: AbortSignal,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...to, signal, timeout: TIMEOUT_MS });
    const end = (isAnswer: boolean): void => {
      socket.destroy();
      resolve(isAnswer);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (signal.aborted) reject(signal.reason as Error);
      else end(error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET');
    });
  });
}
