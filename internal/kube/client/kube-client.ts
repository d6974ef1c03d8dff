import { Agent, request } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { TimeoutError, withTimeout } from '../../cleanup/index.ts';
import type { Clock } from '../../clock/index.ts';
import type { Secret } from '../../secret/index.ts';
import { KubeError } from './errors.ts';

const MAX_BODY_BYTES = 32 * 1024 * 1024;
const TIMEOUT_MS = 10_000;

/** Address and credentials of a Kubernetes API. */
export interface KubeAccess {
  /** "https://host:port". */
  readonly server: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: Secret<string>;
}

/** Address of a Kubernetes API, and the credential of a client: a certificate, a token, or nothing. */
export type KubeClientAccess = Pick<KubeAccess, 'server' | 'caPem'> &
  (Pick<KubeAccess, 'certPem' | 'keyPem'> | { readonly token: Secret<string> | undefined });

/** A writing request. */
interface KubeWrite {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  /** Default: "application/json". */
  readonly contentType?: string;
  /** The wanted representation of the response, such as metadata only. */
  readonly accept?: string | undefined;
}

/**
 * Requests to the Kubernetes API with a client certificate or a token. The CLI makes too few of them to need a
 * library.
 */
export class KubeClient implements Disposable {
  readonly #access: KubeClientAccess;
  readonly #clock: Clock;
  readonly #agent: Agent;

  constructor(access: KubeClientAccess, ports: { readonly clock: Clock }) {
    this.#access = access;
    this.#clock = ports.clock;
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: 4,
      ca: access.caPem,
      ...('token' in access ? {} : { cert: access.certPem, key: access.keyPem.reveal() }),
      minVersion: 'TLSv1.2',
    });
  }

  /** "https://host:port". */
  get server(): string {
    return this.#access.server;
  }

  /** The response to GET as text. @throws KubeError */
  getText(path: string, signal: AbortSignal, accept?: string): Promise<string> {
    return this.#ask({ method: 'GET', path, accept }, signal);
  }

  /** Makes a writing request and ignores the response. @throws KubeError */
  async write(change: KubeWrite, signal: AbortSignal): Promise<void> {
    await this.#ask(change, signal);
  }

  /** The parsed JSON response to GET; the caller checks its shape. @param accept the wanted representation, such as metadata only */
  async getJson(path: string, signal: AbortSignal, accept?: string): Promise<unknown> {
    return this.#parse(path, await this.getText(path, signal, accept));
  }

  /** The parsed JSON response to a POST such as a review; the caller checks its shape. */
  async postJson(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    return this.#parse(path, await this.#ask({ method: 'POST', path, body }, signal));
  }

  #parse(path: string, text: string): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new KubeError('kube-failed', `GET ${this.#access.server}${path}: response is not JSON`, {
        cause,
      });
    }
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  async #ask(sent: KubeRequest, signal: AbortSignal): Promise<string> {
    const what = `${sent.method} ${this.#access.server}${sent.path}`;
    try {
      const { status, body } = await withTimeout(
        { what, ms: TIMEOUT_MS, clock: this.#clock, signal },
        (child) => this.#send(sent, child),
      );
      if (status >= 200 && status < 300) return body;
      throw statusError(what, status, body);
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof KubeError ? error : connectionError(what, error);
    }
  }

  #send(sent: KubeRequest, signal: AbortSignal): Promise<{ readonly status: number; readonly body: string }> {
    const { method, path, body, contentType = 'application/json', accept = 'application/json' } = sent;
    const headers = {
      accept,
      ...(body === undefined ? {} : { 'content-type': contentType }),
      ...('token' in this.#access &&
        this.#access.token && { authorization: `Bearer ${this.#access.token.reveal()}` }),
    };
    return new Promise((resolve, reject) => {
      const call = request(
        new URL(path, this.#access.server),
        { method, agent: this.#agent, signal, headers },
        (response) => {
          readBody(response).then(
            (text) => resolve({ status: response.statusCode ?? 0, body: text }),
            reject,
          );
        },
      );
      call.once('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

type KubeRequest = Omit<KubeWrite, 'method'> & { readonly method: KubeWrite['method'] | 'GET' };

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new Error(`response larger than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

const FORBIDDEN = 403;

/** Whether the API server authenticated the client but did not authorize the request. */
export function isForbidden(error: unknown): boolean {
  return error instanceof KubeError && error.details['status'] === FORBIDDEN;
}

function statusError(what: string, status: number, body: string): KubeError {
  const message = `${what}: ${status}${reasonFrom(body)}`;
  if (status === 401 || status === FORBIDDEN)
    return new KubeError('kube-refused', message, { details: { status } });
  if (status === 404) return new KubeError('kube-not-found', message);
  if (status === 429) return new KubeError('kube-not-now', message);
  return new KubeError('kube-failed', message);
}

/** The `message` of a `Status` object, or nothing. */
function reasonFrom(body: string): string {
  try {
    const { message } = JSON.parse(body) as { message?: unknown };
    return typeof message === 'string' ? ` ${message.slice(0, 500)}` : '';
  } catch {
    return ''; // the body is not a Status object
  }
}

const UNTRUSTED_CERTIFICATE_CODES: readonly string[] = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
  'ERR_TLS_CERT_ALTNAME_INVALID',
];

function connectionError(what: string, error: unknown): KubeError {
  if (error instanceof TimeoutError) return new KubeError('kube-unreachable', error.message);
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (UNTRUSTED_CERTIFICATE_CODES.includes(code))
    return new KubeError('kube-other-authority', what, { cause: error });
  if (code.startsWith('ERR_SSL_TLSV13_ALERT') || code.startsWith('ERR_SSL_SSLV3_ALERT')) {
    return new KubeError('kube-refused', what, { cause: error });
  }
  return new KubeError('kube-unreachable', what, { cause: error });
}
