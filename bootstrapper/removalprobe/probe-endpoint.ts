import type { Clock } from '../../internal/clock/index.ts';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { getHttps } from '../kubernetes/index.ts';
import type { TestCertificate, TestCredential } from './test-credentials.ts';

const TIMEOUT_MS = 5_000;

/** The result of one request with a test credential. */
export type ProbeAnswer =
  /** The TLS handshake succeeded, with or without a client certificate, and the server answered. */
  | { readonly kind: 'status'; readonly status: number; readonly body: string }
  /** The error code that a curator returned. */
  | { readonly kind: 'code'; readonly code: string }
  /** The server ended the handshake with this alert, e.g. "UNKNOWN_CA" (RFC 8446 section 6). */
  | { readonly kind: 'alert'; readonly alert: string }
  /** The request failed in a way that proves nothing. */
  | { readonly kind: 'failed'; readonly why: string };

/** The server of a request, and the CA that must have issued its certificate. */
export interface ProbeTarget {
  readonly host: string;
  readonly port: number;
  readonly serverCaPem: string;
}

/** Sends one HTTPS request with a test credential. Never rejects. */
export async function probeHttps(
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
    const response = await getHttps({ ...target, ca, ...presented, timeout: TIMEOUT_MS, signal });
    return { kind: 'status', ...response };
  } catch (error) {
    // Node.js reports an alert of the peer as ERR_SSL_TLSV1_ALERT_…, ERR_SSL_TLSV13_ALERT_… or
    // ERR_SSL_SSLV3_ALERT_….
    const { code = '' } = error as { readonly code?: string };
    const [, alert] = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3)_ALERT_([A-Z_]+)$/.exec(code) ?? [];
    return alert === undefined ? { kind: 'failed', why: describeError(error) } : { kind: 'alert', alert };
  }
}

/**
 * Calls a method that every member may call. The server must present the certificate of a curator of this
 * cluster.
 */
export async function probeCurator(
  {
    host,
    port,
    serverCaPem: caPem,
    clusterId,
    clock,
  }: ProbeTarget & { readonly clusterId: string; readonly clock: Clock },
  { certPem, keyPem }: TestCertificate,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  using channel = new RpcChannel({
    endpoint: formatEndpoint(host, port),
    upgrade: tlsClientUpgrade({
      clock,
      identity: { certPem, keyPem },
      accept: (certificate) =>
        verifyCuratorCertificate(certificate, { caPem, clusterId, nowMs: () => clock.nowMs() }),
    }),
  });
  try {
    await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: TIMEOUT_MS });
    return { kind: 'status', status: 200, body: '' };
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof RemoteError
      ? { kind: 'code', code: String(error.code) }
      : { kind: 'failed', why: describeError(error) };
  }
}
