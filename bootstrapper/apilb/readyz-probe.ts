import type { connect, createSecureContext, SecureContext, TLSSocket } from 'node:tls';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import type { Endpoint } from './config.ts';
import type { UpstreamProbe } from './health-checks.ts';
import { upstreamKey } from './upstreams.ts';

/** This path needs no credentials (ClusterRole system:public-info-viewer). */
const PATH = '/readyz';
const MAX_CHARS = 16 * 1024;
/**
 * With these statuses the server works but refuses the request: anonymous requests are disabled, or too many
 * requests are running.
 */
const REFUSALS: readonly number[] = [401, 403, 429];
/** Internal status: the server's certificate is from another CA, so no request was sent. */
const OTHER_CA = -1;

/**
 * The functions of `node:tls` that this file uses. The relay does not load that module, because it would need
 * a quarter of the relay's memory.
 */
interface TlsModule {
  readonly connect: typeof connect;
  readonly createSecureContext: typeof createSecureContext;
}

/**
 * Requests `/readyz` of an API server. The connection stays open for the next check, because TLS handshakes
 * would be most of the cost at both ends. This class implements HTTP/1.1 itself, because `node:https` needs
 * more memory than the rest of the program.
 */
export class ReadyzProbe implements UpstreamProbe {
  readonly #tls: TlsModule;
  readonly #context: SecureContext;
  readonly #connections = new Map<string, Connection>();

  /** @param caPem the CA of the certificates of the API servers */
  constructor(tls: TlsModule, caPem: string) {
    this.#tls = tls;
    this.#context = tls.createSecureContext({ ca: caPem });
  }

  async check(upstream: Endpoint): Promise<string | undefined> {
    const { socket, answer } = this.#connectionTo(upstream);
    const response = answer();
    if (socket.getProtocol() !== null && !socket.connecting) socket.write(requestFor(upstream));
    else socket.once('secureConnect', () => socket.write(requestFor(upstream)));
    const { status, body, isWhole } = await response;
    if (status === 200 && isWhole) return undefined;
    socket.destroy();
    return status === 200 || REFUSALS.includes(status) ? undefined : whyUnready(status, body);
  }

  disconnect(upstream: Endpoint): void {
    this.#connections.get(upstreamKey(upstream))?.socket.destroy();
  }

  #connectionTo(upstream: Endpoint): Connection {
    const key = upstreamKey(upstream);
    const existing = this.#connections.get(key);
    if (existing !== undefined && !existing.socket.destroyed) return existing;
    const socket = this.#tls.connect({
      ...upstream,
      secureContext: this.#context,
      // The certificate is verified below, to distinguish a server of another CA from a server that does not
      // answer.
      rejectUnauthorized: false,
      // The directory of control planes may use a name that is not in the certificate. Clients verify the
      // name themselves.
      checkServerIdentity: () => undefined,
    });
    socket.setNoDelay(true);
    const made = connectionOver(socket);
    this.#connections.set(key, made);
    socket.once('close', () => {
      if (this.#connections.get(key) === made) this.#connections.delete(key);
    });
    return made;
  }
}

interface Connection {
  readonly socket: TLSSocket;
  /** Reads the next response. Only one call may run at a time. Rejects if the connection closes. */
  readonly answer: () => Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly body: string;
  /** Whether the response is complete. Only then can the connection be reused. */
  readonly isWhole: boolean;
}

/**
 * Wraps a connection to a server. The server chooses every byte, so the response length is limited and only
 * the status is used.
 */
function connectionOver(socket: TLSSocket): Connection {
  let text = '';
  let failure = new Error('the server closed the connection');
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
    settle({ status: OTHER_CA, body: String(socket.authorizationError), isWhole: false });
    socket.destroy();
  });
  socket.on('data', (data: Buffer) => {
    text += data.toString('latin1');
    const answer = answerFrom(text);
    if (answer !== undefined) settle(answer);
    else if (text.length > MAX_CHARS) socket.destroy(new Error('the answer is too long'));
  });
  return {
    socket,
    answer: () => {
      waiting = Promise.withResolvers<Answer>();
      return waiting.promise;
    },
  };
}

function requestFor(upstream: Endpoint): string {
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
  if (status === OTHER_CA) return `certificate of another CA: ${body}`;
  const failed = body.split('\n').filter((line) => line.startsWith('[-]'));
  const words = (failed.join(' ') || body).replace(/[^\x20-\x7e]/g, '?').slice(0, 200);
  return `${PATH.slice(1)} answered ${status}: ${words}`;
}

function hostHeader({ host, port }: Endpoint): string {
  return formatEndpoint(host, port);
}
