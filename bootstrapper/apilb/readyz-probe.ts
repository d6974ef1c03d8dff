import { once } from 'node:events';
import type { connect, createSecureContext, SecureContext, TLSSocket } from 'node:tls';
import type { Endpoint } from './config.ts';
import type { UpstreamProbe } from './health-checks.ts';
import { keyOf } from './upstreams.ts';

/** Every API server answers this to everybody (system:public-info-viewer); the probe shows no credential. */
const PATH = '/readyz';
const MAX_CHARS = 16 * 1024;
/** The server refuses the question, so it works: anonymous requests may be off, or there are too many at once. */
const REFUSALS: readonly number[] = [401, 403, 429];

/** `node:tls`, which the relay does not load: it would be a quarter of its memory. */
export interface TlsModule {
  readonly connect: typeof connect;
  readonly createSecureContext: typeof createSecureContext;
}

/**
 * Asks an API server over TLS whether it is ready. The connection is kept for the next question: a handshake for each would
 * be most of the cost at both ends. HTTP/1.1 by hand, since `node:https` costs more memory than the rest of the program may.
 */
export class ReadyzProbe implements UpstreamProbe {
  readonly #tls: TlsModule;
  readonly #context: SecureContext;
  readonly #kept = new Map<string, TLSSocket>();

  /** @param caPem whoever signed the certificates of the API servers */
  constructor(tls: TlsModule, caPem: string) {
    this.#tls = tls;
    this.#context = tls.createSecureContext({ ca: caPem });
  }

  async ask(upstream: Endpoint, signal: AbortSignal): Promise<string | undefined> {
    const kept = this.#kept.get(keyOf(upstream));
    const socket = kept !== undefined && !kept.destroyed ? kept : this.#dial(upstream);
    const close = (): void => void socket.destroy();
    signal.addEventListener('abort', close, { once: true });
    try {
      if (socket.connecting || socket.getProtocol() === null) await once(socket, 'secureConnect', { signal });
      if (!socket.authorized) {
        socket.destroy();
        return `another authority signed its certificate: ${String(socket.authorizationError)}`;
      }
      socket.write(
        `GET ${PATH} HTTP/1.1\r\nHost: ${hostHeader(upstream)}\r\nUser-Agent: cluster-apilb\r\n\r\n`,
      );
      const { status, body, isWhole } = await readAnswer(socket, signal);
      if (status === 200 && isWhole) return undefined;
      socket.destroy();
      return status === 200 || REFUSALS.includes(status) ? undefined : whyUnready(status, body);
    } catch (error) {
      socket.destroy();
      throw error;
    } finally {
      signal.removeEventListener('abort', close);
    }
  }

  forget(upstream: Endpoint): void {
    this.#kept.get(keyOf(upstream))?.destroy();
  }

  #dial(upstream: Endpoint): TLSSocket {
    const key = keyOf(upstream);
    const socket = this.#tls.connect({
      ...upstream,
      secureContext: this.#context,
      // Judged by `ask`, which tells a server of another authority from one that does not answer.
      rejectUnauthorized: false,
      // The directory may name a server otherwise than its certificate does; clients check the name themselves.
      checkServerIdentity: () => undefined,
    });
    socket.setNoDelay(true);
    this.#kept.set(key, socket);
    socket.on('error', () => undefined); // the question that waits is told
    socket.once('close', () => {
      if (this.#kept.get(key) === socket) this.#kept.delete(key);
    });
    return socket;
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
  /** Whether nothing of it is still to come: only then the connection can be used again. */
  readonly isWhole: boolean;
}

/** Every byte is the server's choice: bounded, and nothing of it is believed but the status. */
function readAnswer(socket: TLSSocket, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let text = '';
    const settle = (end: () => void): void => {
      socket.off('data', onData).off('close', onClose).off('error', reject);
      end();
    };
    const onData = (data: Buffer): void => {
      text += data.toString('latin1');
      const answer = answerFrom(text);
      if (answer !== undefined) settle(() => resolve(answer));
      else if (text.length > MAX_CHARS) settle(() => reject(new Error('its answer is too long')));
    };
    const onClose = (): void => {
      const why: unknown = signal.aborted ? signal.reason : new Error('it closed the connection');
      settle(() => reject(why as Error));
    };
    socket.on('data', onData).on('close', onClose).on('error', reject);
  });
}

function answerFrom(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const status = Number(/^HTTP\/1\.[01] ([0-9]{3})[ \r]/.exec(text)?.[1] ?? 0);
  const length = /\r\ncontent-length: *([0-9]{1,6})\r\n/i.exec(text.slice(0, end + 2))?.[1];
  const body = text.slice(end + 4);
  if (length === undefined) return { status, body, isWhole: false };
  if (body.length < Number(length)) return undefined;
  return { status, body, isWhole: body.length === Number(length) };
}

function whyUnready(status: number, body: string): string {
  const failed = body.split('\n').filter((line) => line.startsWith('[-]'));
  const words = (failed.join(' ') || body).replace(/[^\x20-\x7e]/g, '?').slice(0, 200);
  return `${PATH.slice(1)} answers ${status}: ${words}`;
}

function hostHeader({ host, port }: Endpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
