import type { connect, createSecureContext, SecureContext, TLSSocket } from 'node:tls';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import type { Endpoint } from './config.ts';
import type { UpstreamProbe } from './health-checks.ts';
import { upstreamKey } from './upstreams.ts';

/** Every API server answers this to everybody (system:public-info-viewer); the probe shows no credential. */
const PATH = '/readyz';
const MAX_CHARS = 16 * 1024;
/** The server refuses the question, so it works: anonymous requests may be off, or there are too many at once. */
const REFUSALS: readonly number[] = [401, 403, 429];
/** In place of a status: the server was not asked. */
const OTHER_AUTHORITY = -1;

/** `node:tls`, which the relay does not load: it would be a quarter of its memory. */
interface TlsModule {
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
  readonly #kept = new Map<string, Connection>();

  /** @param caPem whoever signed the certificates of the API servers */
  constructor(tls: TlsModule, caPem: string) {
    this.#tls = tls;
    this.#context = tls.createSecureContext({ ca: caPem });
  }

  async check(upstream: Endpoint): Promise<string | undefined> {
    const { socket, answer } = this.#connectionTo(upstream);
    const asked = answer();
    if (socket.getProtocol() !== null && !socket.connecting) socket.write(questionFor(upstream));
    else socket.once('secureConnect', () => socket.write(questionFor(upstream)));
    const { status, body, isWhole } = await asked;
    if (status === 200 && isWhole) return undefined;
    socket.destroy();
    return status === 200 || REFUSALS.includes(status) ? undefined : whyUnready(status, body);
  }

  disconnect(upstream: Endpoint): void {
    this.#kept.get(upstreamKey(upstream))?.socket.destroy();
  }

  #connectionTo(upstream: Endpoint): Connection {
    const key = upstreamKey(upstream);
    const kept = this.#kept.get(key);
    if (kept !== undefined && !kept.socket.destroyed) return kept;
    const socket = this.#tls.connect({
      ...upstream,
      secureContext: this.#context,
      // Judged below, which tells a server of another authority from one that does not answer.
      rejectUnauthorized: false,
      // The directory may name a server otherwise than its certificate does; clients check the name themselves.
      checkServerIdentity: () => undefined,
    });
    socket.setNoDelay(true);
    const made = connectionOver(socket);
    this.#kept.set(key, made);
    socket.once('close', () => {
      if (this.#kept.get(key) === made) this.#kept.delete(key);
    });
    return made;
  }
}

interface Connection {
  readonly socket: TLSSocket;
  /** What comes next; one at a time. Rejects when the connection ends. */
  readonly answer: () => Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly body: string;
  /** Whether nothing of it is still to come: only then the connection can be used again. */
  readonly isWhole: boolean;
}

/** Every byte is the server's choice: bounded, and nothing of it is believed but the status. */
function connectionOver(socket: TLSSocket): Connection {
  let text = '';
  let failure = new Error('it closed the connection');
  let waiting: PromiseWithResolvers<Answer> | undefined;
  const settle = (answer: Answer | Error): void => {
    text = '';
    if (answer instanceof Error) waiting?.reject(answer);
    else waiting?.resolve(answer);
    waiting = undefined;
  };
  socket.on('error', (error: Error) => {
    failure = error;
  });
  socket.once('close', () => settle(failure));
  socket.once('secureConnect', () => {
    if (socket.authorized) return;
    settle({ status: OTHER_AUTHORITY, body: String(socket.authorizationError), isWhole: false });
    socket.destroy();
  });
  socket.on('data', (data: Buffer) => {
    text += data.toString('latin1');
    const answer = answerFrom(text);
    if (answer !== undefined) settle(answer);
    else if (text.length > MAX_CHARS) socket.destroy(new Error('its answer is too long'));
  });
  return {
    socket,
    answer: () => {
      waiting = Promise.withResolvers<Answer>();
      return waiting.promise;
    },
  };
}

function questionFor(upstream: Endpoint): string {
  return `GET ${PATH} HTTP/1.1\r\nHost: ${hostHeader(upstream)}\r\nUser-Agent: cluster-apilb\r\n\r\n`;
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
  if (status === OTHER_AUTHORITY) return `another authority signed its certificate: ${body}`;
  const failed = body.split('\n').filter((line) => line.startsWith('[-]'));
  const words = (failed.join(' ') || body).replace(/[^\x20-\x7e]/g, '?').slice(0, 200);
  return `${PATH.slice(1)} answered ${status}: ${words}`;
}

function hostHeader({ host, port }: Endpoint): string {
  return formatEndpoint(host, port);
}
