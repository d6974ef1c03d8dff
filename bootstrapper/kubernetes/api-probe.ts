import { connect } from 'node:net';
import { request } from 'node:https';

const PROBE_MS = 2_000;

/** Asks the API server on this machine whether it is ready: resolves with its words, rejects with the reason. */
export type ApiProbe = (options: {
  readonly host: string;
  readonly port: number;
  readonly caPem: string;
  readonly signal: AbortSignal;
}) => Promise<void>;

/** `/readyz` needs no credentials (system:public-info-viewer); the server is checked against the cluster's own CA. */
export const probeReadyz: ApiProbe = (options) =>
  new Promise((resolve, reject) => {
    const ask = request(
      {
        host: options.host,
        port: options.port,
        path: '/readyz',
        ca: options.caPem,
        timeout: PROBE_MS,
        signal: options.signal,
        agent: false,
      },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body = (body + chunk).slice(0, 2000)));
        response.on('end', () => {
          if (response.statusCode === 200) return resolve();
          const failed = body.split('\n').filter((line) => line.startsWith('[-]'));
          reject(
            new Error(`readyz answers ${response.statusCode}: ${failed.join(' ') || body.slice(0, 200)}`),
          );
        });
        response.on('error', reject);
      },
    );
    ask.once('timeout', () => ask.destroy(new Error(`no answer within ${PROBE_MS} ms`)));
    ask.once('error', reject);
    ask.end();
  });

/** Whether somebody takes connections there. */
export function isListening(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_MS });
    const answer = (isThere: boolean) => (): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', answer(true));
    // Who takes a connection so slowly is still there; only a refusal says that nobody is.
    socket.once('timeout', answer(true));
    socket.once('error', answer(false));
  });
}
