import type { X509Certificate } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { z } from 'zod';
import type { Clock } from '../../internal/clock/index.ts';
import { formatEndpoint, type HostPort } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { getHttps } from '../kubernetes/index.ts';
import type { TestCertificate, TestCredential } from './credentials.ts';

const TIMEOUT_MS = 5_000;
const MAX_MESSAGE_CHARS = 300;
/** A Status of Kubernetes, which is untrusted here. */
const kubernetesStatus = z.object({ message: z.string() });

/**
 * The answer to one request with a test credential: "HTTP 401", followed by ": " and the message of an API server; "TLS: unknown ca",
 * the alert that ended the handshake (RFC 8446 section 6); the error code of a curator; `CLOSED` or `ANSWERED`. Any other text
 * says why there is no answer.
 */
export type ProbeAnswer = string;

/** A curator of this cluster closed the connection without an answer, as it does for a certificate of another CA. */
export const CLOSED = 'TLS: closed after the handshake';
/** A curator answered the call. */
export const ANSWERED = 'answered';
/** The answers to a valid credential. */
export const SUCCESS = RegExp(`^(HTTP 200\\b|${ANSWERED}$)`);

/** The server of a request, and the CA that must have issued its certificate. */
interface ProbeTarget extends HostPort {
  readonly serverCaPem: string;
}

/** Sends one HTTPS request with a test credential. Never rejects. */
export async function sendHttps(
  { serverCaPem: ca, ...target }: ProbeTarget & { readonly path: string },
  credential: TestCredential,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  try {
    const options = { ...target, ca, ...presented(credential), timeout: TIMEOUT_MS, signal };
    const { status, body } = await getHttps(options);
    const { data } = kubernetesStatus.safeParse(parseJson(body));
    return data === undefined
      ? `HTTP ${status}`
      : `HTTP ${status}: ${data.message.slice(0, MAX_MESSAGE_CHARS)}`;
  } catch (error) {
    // Node.js reports an alert of the peer as ERR_SSL_TLSV1_ALERT_…, ERR_SSL_TLSV13_ALERT_… or ERR_SSL_SSLV3_ALERT_….
    const { code = '' } = error as { readonly code?: string };
    const [, alert] = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3)_ALERT_([A-Z_]+)$/.exec(code) ?? [];
    return alert === undefined ? noAnswer(error) : `TLS: ${alert.toLowerCase().replaceAll('_', ' ')}`;
  }
}

function presented(credential: TestCredential): RequestOptions {
  if ('token' in credential) return { headers: { authorization: `Bearer ${credential.token.reveal()}` } };
  const { certPem: cert, keyPem, asUser } = credential;
  return { cert, key: keyPem.reveal(), headers: asUser === undefined ? {} : { 'x-remote-user': asUser } };
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
    return ANSWERED;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RemoteError) return error.code;
    return isCurator ? CLOSED : noAnswer(error);
  }
}

function noAnswer(error: unknown): ProbeAnswer {
  return `no answer: ${describeError(error)}`;
}
