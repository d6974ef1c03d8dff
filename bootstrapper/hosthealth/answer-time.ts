import { connect } from 'node:net';
import { withChildSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';

const TIMEOUT_MS = 1_000;
/** Both listen on all addresses of every node. A firewall may close one of them to other nodes. */
const NODE_PORTS: readonly number[] = [PORTS.kubelet, PORTS.kubeProxyHealth];

/** Options of `answerTimeMs()`. */
interface AnswerTimeOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly signal: AbortSignal;
  readonly ports?: readonly number[];
}

/**
 * How long a node takes to answer at this address in any way: it accepts a connection, or refuses it. Its kernel does
 * both, so a busy program on the node delays nothing. The time of ports that do not answer does not count.
 * @returns ms, at most 1,000; undefined if the node does not answer
 */
export async function answerTimeMs(
  host: string,
  { clock, signal, ports = NODE_PORTS }: AnswerTimeOptions,
): Promise<number | undefined> {
  for (const port of ports) {
    const startedMs = clock.monotonicMs();
    if (await withChildSignal(signal, (child) => answersAt({ host, port }, child)))
      return Math.min(clock.monotonicMs() - startedMs, TIMEOUT_MS);
  }
  return undefined;
}

function answersAt(
  to: { readonly host: string; readonly port: number },
  child: AbortSignal,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...to, signal: child, timeout: TIMEOUT_MS });
    const end = (isAnswer: boolean): void => {
      socket.destroy();
      resolve(isAnswer);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (child.aborted) reject(child.reason as Error);
      else end(error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET');
    });
  });
}
