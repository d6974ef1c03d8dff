import type { X509Certificate } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { getHttps } from '../kubernetes/index.ts';
import type { TestCertificate, TestCredential } from './credentials.ts';

const TIMEOUT_MS = 5_000;
const MAX_MESSAGE_CHARS = 300;

/** The answer to one request with a test credential. */
export interface ProbeAnswer {
  /**
   * "HTTP 401", followed by ": " and the message of an API server; "TLS: unknown ca": the alert that ended the handshake (RFC 8446
   * section 6); the error code of a curator; `CLOSED` or `ANSWERED`. Anything else says why there is no answer.
   */
  readonly text: string;
  /** Body of an HTTP response, cut off; empty in other answers. */
  readonly body: string;
}

/** A curator of this cluster closed the connection without an answer, as it does for a certificate of another CA. */
export const CLOSED = 'TLS: closed after the handshake';
/** A curator answered the call. */
export const ANSWERED = 'answered';
/** The answers to a valid credential. */
export const SUCCESS = RegExp(`^(HTTP 200\\b|${ANSWERED}$)`);

/** The server of a request, and the CA that must have issued its certificate. */
interface ProbeTarget {
  readonly host: string;
  readonly port: number;
  readonly serverCaPem: string;
}

/** Sends one HTTPS request with a test credential. Never rejects. */
export async function sendHttps(
  { serverCaPem: ca, ...target }: ProbeTarget & { readonly path: string },
  credential: TestCredential,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const presented =
    'token' in credential
      ? { headers: { authorization: `Bearer ${credential.token.reveal()}` } }
      : {
          ...{ cert: credential.certPem, key: credential.keyPem.reveal() },
          headers: credential.asUser === undefined ? {} : { 'x-remote-user': credential.asUser },
        };
  try {
    const { status, body } = await getHttps({ ...target, ca, ...presented, timeout: TIMEOUT_MS, signal });
    const message = stringIn(body, 'message')?.slice(0, MAX_MESSAGE_CHARS);
    return { text: `HTTP ${status}${message === undefined ? '' : `: ${message}`}`, body };
  } catch (error) {
    // Node.js reports an alert of the peer as ERR_SSL_TLSV1_ALERT_…, ERR_SSL_TLSV13_ALERT_… or ERR_SSL_SSLV3_ALERT_….
    const { code = '' } = error as { readonly code?: string };
    const [, alert] = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3)_ALERT_([A-Z_]+)$/.exec(code) ?? [];
    if (alert === undefined) return failed(error);
    return { text: `TLS: ${alert.toLowerCase().replaceAll('_', ' ')}`, body: '' };
  }
}

/** Calls a method that every member may call, at a server with the certificate of a curator of this cluster. */
export async function callCurator(
  target: ProbeTarget & { readonly clusterId: string; readonly clock: Clock },
  { certPem, keyPem }: TestCertificate,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const { host, port, serverCaPem: caPem, clusterId, clock } = target;
  let isCurator = false;
  const accept = (certificate: X509Certificate): void => {
    verifyCuratorCertificate(certificate, { caPem, clusterId, nowMs: () => clock.nowMs() });
    isCurator = true;
  };
  using channel = new RpcChannel({
    endpoint: formatEndpoint(host, port),
    upgrade: tlsClientUpgrade({ clock, identity: { certPem, keyPem }, accept }),
  });
  try {
    await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: TIMEOUT_MS });
    return { text: ANSWERED, body: '' };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RemoteError) return { text: error.code, body: '' };
    return isCurator ? { text: CLOSED, body: '' } : failed(error);
  }
}

function failed(error: unknown): ProbeAnswer {
  return { text: `no answer: ${describeError(error)}`, body: '' };
}

/** The string at a path in a JSON body, e.g. the `message` of a Kubernetes Status; undefined in any other body. */
export function stringIn(body: string, ...path: readonly string[]): string | undefined {
  const found = path.reduce<unknown>(
    (parent, name) => (parent as Readonly<Record<string, unknown>> | null | undefined)?.[name],
    parseJson(body),
  );
  return typeof found === 'string' ? found : undefined;
}
