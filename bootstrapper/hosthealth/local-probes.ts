import { formatDuration } from '../../internal/clock/index.ts';
import { withChildSignal } from '../../internal/cleanup/index.ts';
import { Agent, request } from 'node:http';
import { connect, type NetConnectOpts } from 'node:net';

const TIMEOUT_MS = 2_000;
const MAX_REASON_CHARS = 200;

/** Resolves when the program is well; rejects with the reason why it is not. */
export type Probe = (signal: AbortSignal) => Promise<void>;

/** Requests a page of a program on this machine, over a connection that stays open: 200 means that it is well. */
export function httpProbe(port: number, path: string): Probe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return (signal) =>
    new Promise((resolve, reject) => {
      const sent = request(
        { host: '127.0.0.1', port, path, agent, signal, timeout: TIMEOUT_MS },
        (response) => {
          let body = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => (body = (body + chunk).slice(0, MAX_REASON_CHARS)));
          response.on('error', reject);
          response.on('end', () => {
            if (response.statusCode === 200) resolve();
            else reject(new Error(`${path.slice(1)} answered ${response.statusCode}: ${body}`));
          });
        },
      );
      sent.once('timeout', () => sent.destroy(new SilentError()));
      sent.once('error', reject);
      sent.end();
    });
}

/** What a client of HTTP/2 sends first: the preface and an empty SETTINGS frame (RFC 9113, sections 3.4 and 6.5). The server answers with its own SETTINGS. */
export const HTTP2_HELLO = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
/** A request that touches no data of the program: "not found" is an answer too. */
export const HTTP1_HELLO = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';

/** The program took the connection or left it in the queue of its socket, and sent nothing. */
export class SilentError extends Error {
  override readonly name = 'SilentError';

  constructor() {
    super(`no answer within ${formatDuration(TIMEOUT_MS)}`);
  }
}

/**
 * Whether a program answers at all: sends `hello` over a new connection and waits for one byte. The kernel accepts connections for a
 * program that does not run, so a connection alone says nothing. Rejects with `SilentError` only if nothing came in time: a program
 * that refuses or closes the connection is not hung.
 */
export function answerProbe(to: NetConnectOpts, hello: string | Buffer): Probe {
  return (signal) => withChildSignal(signal, (child) => untilAnswered({ ...to, signal: child }, hello));
}

function untilAnswered(to: NetConnectOpts, hello: string | Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...to, timeout: TIMEOUT_MS });
    socket.once('connect', () => socket.write(hello));
    socket.once('data', () => {
      resolve();
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy(new SilentError()));
    socket.once('end', () => socket.destroy(new Error('the program closed the connection')));
    socket.once('error', reject);
  });
}
