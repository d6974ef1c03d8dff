import { connect } from 'node:net';

const TIMEOUT_MS = 2_000;

/** What happened to a TCP connection. Only a machine that is reached refuses one. */
export type TcpProbe = 'open' | 'refused' | 'timed out' | 'failed';

/** Opens a TCP connection and closes it at once. Never rejects. */
export function probeTcp(host: string, port: number, timeoutMs = TIMEOUT_MS): Promise<TcpProbe> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const answer = (probe: TcpProbe): void => {
      socket.destroy();
      resolve(probe);
    };
    socket.once('connect', () => answer('open'));
    socket.once('timeout', () => answer('timed out'));
    socket.once('error', ({ code }: NodeJS.ErrnoException) =>
      answer(code === 'ECONNREFUSED' ? 'refused' : 'failed'),
    );
  });
}

/** Whether a server listens on this TCP port: false only if the connection is refused or fails. */
export async function isListening(host: string, port: number): Promise<boolean> {
  // A busy server may accept connections slowly, so a timeout counts as listening.
  return ['open', 'timed out'].includes(await probeTcp(host, port));
}
