import { formatDuration } from '../../internal/clock/index.ts';
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
      sent.once('timeout', () => sent.destroy(new Error(`no answer within ${formatDuration(TIMEOUT_MS)}`)));
      sent.once('error', reject);
      sent.end();
    });
}

/** Connects to a socket that the program listens on. */
export function connectProbe(to: NetConnectOpts): Probe {
  return (signal) =>
    new Promise((resolve, reject) => {
      const socket = connect({ ...to, signal, timeout: TIMEOUT_MS });
      socket.once('connect', () => (socket.destroy(), resolve()));
      socket.once('timeout', () =>
        socket.destroy(new Error(`no answer within ${formatDuration(TIMEOUT_MS)}`)),
      );
      socket.once('error', reject);
    });
}
