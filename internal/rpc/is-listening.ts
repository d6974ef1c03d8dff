import { connect } from 'node:net';

const TIMEOUT_MS = 2_000;

/** Whether a server listens on this TCP port: false only if the connection is refused. */
export function isListening(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: TIMEOUT_MS });
    const answer = (isOpen: boolean) => (): void => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', answer(true));
    // A busy server may accept connections slowly, so a timeout counts as listening. Only a refused
    // connection counts as not listening.
    socket.once('timeout', answer(true));
    socket.once('error', answer(false));
  });
}
