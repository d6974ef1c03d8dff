import type { X509Certificate } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { z } from 'zod';
import type { Clock } from '../../internal/clock/index.ts';
import { splitEndpoint } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { getHttps } from '../kubernetes/index.ts';
import type { TestCredential } from './credentials.ts';

const TIMEOUT_MS = 5_000;
const MAX_MESSAGE_CHARS = 300;
/** A Status of Kubernetes, which is untrusted here. */
const kubernetesStatus = z.object({ message: z.string() });

/**
 * The answer to one request with a test credential: "HTTP 401", followed by ": " and the message of an API server; "TLS: unknown ca",
 * the alert that ended the handshake (RFC 8446 section 6); the error code of a curator, or `CLOSED`. Any other text
 * says why there is no answer.
 */
export type ProbeAnswer = string;

/** A curator of this cluster closed the connection without an answer, as it does for a certificate of another CA. */
export const CLOSED = 'TLS: closed after the handshake';

/** A request with a test credential. */
interface ProbeTarget {
  /** "host:port" of the server, IPv6 in brackets. */
  readonly address: string;
  /** The CA that must have issued the server's certificate. */
  readonly serverCaPem: string;
  /** Path of an HTTPS request; undefined: the server is a curator. */
  readonly path: string | undefined;
  readonly clusterId: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Presents a test credential to a server in one request. Rejects only if the signal fires. */
export async function sendCredential(target: ProbeTarget, credential: TestCredential): Promise<ProbeAnswer> {
  try {
    return await (target.path === undefined ? callCurator : requestPath)(target, credential);
  } catch (error) {
    target.signal.throwIfAborted();
    // Node.js reports an alert of the peer as ERR_SSL_TLSV1_ALERT_…, ERR_SSL_TLSV13_ALERT_… or ERR_SSL_SSLV3_ALERT_….
    const { code = '' } = error as { readonly code?: string };
    const [, alert] = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3)_ALERT_([A-Z_]+)$/.exec(code) ?? [];
    if (alert !== undefined) return `TLS: ${alert.toLowerCase().replaceAll('_', ' ')}`;
    return `no answer: ${describeError(error)}`;
  }
}

async function requestPath(
  { address, serverCaPem: ca, path, signal }: ProbeTarget,
  credential: TestCredential,
): Promise<ProbeAnswer> {
  const options = { ...splitEndpoint(address), path, ca, timeout: TIMEOUT_MS, signal };
  const { status, body } = await getHttps({ ...options, ...presented(credential) });
  const { data } = kubernetesStatus.safeParse(parseJson(body));
  return `HTTP ${status}${data === undefined ? '' : `: ${data.message.slice(0, MAX_MESSAGE_CHARS)}`}`;
}

function presented(credential: TestCredential): RequestOptions {
  if ('token' in credential) return { headers: { authorization: `Bearer ${credential.token.reveal()}` } };
  const { certPem: cert, keyPem, asUser } = credential;
  return { cert, key: keyPem.reveal(), headers: asUser === undefined ? {} : { 'x-remote-user': asUser } };
}

/** Calls a method that every member may call, at a server with the certificate of a curator of this cluster. */
async function callCurator(
  { address: endpoint, serverCaPem: caPem, clusterId, clock, signal }: ProbeTarget,
  credential: TestCredential,
): Promise<ProbeAnswer> {
  if ('token' in credential) throw new TypeError('curators accept certificates only');
  const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
  const accept = (shown: X509Certificate) => verifyCuratorCertificate(shown, trust);
  using channel = new RpcChannel({
    endpoint,
    upgrade: tlsClientUpgrade({ clock, identity: credential, accept }),
  });
  try {
    await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: TIMEOUT_MS });
    return 'HTTP 200'; // the status of every gRPC response
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RemoteError) return error.code;
    if (channel.peer !== undefined) return CLOSED;
    throw error;
  }
}
