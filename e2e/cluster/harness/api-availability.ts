import { request } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';

/** Expiry of the certificate that a TLS server shows, in ms. */
export function certificateExpiryMs(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host, port, rejectUnauthorized: false, timeout: 5000 }, () => {
      resolve(Date.parse(socket.getPeerX509Certificate()?.validTo ?? ''));
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy(new Error(`${host}:${port} does not respond`)));
    socket.once('error', reject);
  });
}

/** Calls an API server repeatedly, and records the longest time without a response. */
export class ApiAvailability implements AsyncDisposable {
  readonly #over = new AbortController();
  readonly #work: Promise<void>;
  #lastMs = Date.now();
  #longestMs = 0;

  constructor(host: string) {
    this.#work = this.#watch(host);
  }

  get longestOutageMs(): number {
    return Math.max(this.#longestMs, Date.now() - this.#lastMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#work;
  }

  async #watch(host: string): Promise<void> {
    while (!this.#over.signal.aborted) {
      if (await isReady(host)) {
        this.#longestMs = Math.max(this.#longestMs, Date.now() - this.#lastMs);
        this.#lastMs = Date.now();
      }
      await delay(250, undefined, { signal: this.#over.signal }).catch(() => undefined);
    }
  }
}

function isReady(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host, port: 6443, path: '/readyz', rejectUnauthorized: false, agent: false };
    const ask = request({ ...options, timeout: 2000 }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode === 200));
      answer.on('error', () => resolve(false));
    });
    ask.once('timeout', () => ask.destroy(new Error('timeout')));
    ask.once('error', () => resolve(false));
    ask.end();
  });
}
