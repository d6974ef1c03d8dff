import type { Clock } from '../../internal/clock/index.ts';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RemoteError, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { getHttps } from '../kubernetes/index.ts';
import type { EndpointKind } from './endpoints.ts';
import type { TestCertificate, TestCredential, TestCredentialName } from './credentials.ts';

const TIMEOUT_MS = 5_000;

/** The answer to one request with a test credential. */
export type ProbeAnswer =
  /** The TLS handshake succeeded, with or without a client certificate, and the server answered. */
  | { readonly kind: 'status'; readonly status: number; readonly body: string }
  /** The error code that a curator returned. */
  | { readonly kind: 'code'; readonly code: string }
  /** A curator with a certificate of this cluster closed the connection without an answer, as for a certificate of another CA. */
  | { readonly kind: 'closed' }
  /** The server ended the handshake with this alert, e.g. "UNKNOWN_CA" (RFC 8446 section 6). */
  | { readonly kind: 'alert'; readonly alert: string }
  /** The request failed in a way that proves nothing. */
  | { readonly kind: 'failed'; readonly why: string };

/** The server of a request, and the CA that must have issued its certificate. */
interface ProbeTarget {
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

/** Calls a method that every member may call, at a server with the certificate of a curator of this cluster. */
export async function probeCurator(
  target: ProbeTarget & { readonly clusterId: string; readonly clock: Clock },
  { certPem, keyPem }: TestCertificate,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const { host, port, serverCaPem: caPem, clusterId, clock } = target;
  const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
  let isCurator = false;
  using channel = new RpcChannel({
    endpoint: formatEndpoint(host, port),
    upgrade: tlsClientUpgrade({
      clock,
      identity: { certPem, keyPem },
      accept: (certificate) => {
        verifyCuratorCertificate(certificate, trust);
        isCurator = true;
      },
    }),
  });
  try {
    await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: TIMEOUT_MS });
    return { kind: 'status', status: 200, body: '' };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RemoteError) return { kind: 'code', code: String(error.code) };
    return isCurator ? { kind: 'closed' } : { kind: 'failed', why: describeError(error) };
  }
}

/** The conclusion from an endpoint's answer. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  /** The answer in words, for the operator. */
  readonly detail: string;
}

/** A curator refuses keys without a record. If it only denies the call, it knows the caller. */
const CURATOR_OUTCOMES: Readonly<Partial<Record<string, Verdict['outcome']>>> = {
  'curator-not-member': 'refused',
  'curator-denied': 'admitted',
};

/** etcd refuses certificates in the TLS handshake; the other servers authenticate each request. */
export function isEtcd(kind: EndpointKind): boolean {
  return /^(state-)?etcd-/.test(kind);
}

/**
 * Decides what an answer proves. Only a refusal for the expected reason counts. Other refusals affect all
 * clients: the server's clock makes the certificate not yet valid, the port is closed, or the server fails.
 * Pure.
 */
export function judgeAnswer(
  kind: EndpointKind,
  credential: TestCredentialName,
  answer: ProbeAnswer,
): Verdict {
  switch (answer.kind) {
    case 'failed':
      return { outcome: 'inconclusive', detail: answer.why };
    case 'alert': {
      const isRefused = isEtcd(kind) && answer.alert === 'UNKNOWN_CA';
      const detail = `TLS: ${answer.alert.toLowerCase().replaceAll('_', ' ')}`;
      return { outcome: isRefused ? 'refused' : 'inconclusive', detail };
    }
    case 'closed':
      return { outcome: 'refused', detail: 'TLS: closed after the handshake' };
    case 'code':
      return { outcome: CURATOR_OUTCOMES[answer.code] ?? 'inconclusive', detail: answer.code };
    case 'status': {
      if (kind === 'curator') return { outcome: 'admitted', detail: 'answered' };
      const message = stringIn(answer.body, 'message');
      const detail = `HTTP ${answer.status}${message === undefined ? '' : `: ${message.slice(0, 300)}`}`;
      return { outcome: isEtcd(kind) ? 'admitted' : outcomeOf(answer.status, credential), detail };
    }
  }
}

/**
 * Returns the result of an HTTP status. 403 and 404 mean that the server authenticated the credential, so
 * another credential of the same key could have permissions. A kubelet is the exception: 403 is the expected
 * refusal by its record, and 401 means that its CA is not trusted, so no record was checked.
 */
function outcomeOf(status: number, credential: TestCredentialName): Verdict['outcome'] {
  if (status === (credential === 'kubelet' ? 403 : 401)) return 'refused';
  const isAuthenticated = status === 403 || status === 404 || (status >= 200 && status < 300);
  return isAuthenticated ? 'admitted' : 'inconclusive';
}

/** The string at a path in a JSON body, e.g. the `message` of a Kubernetes Status; undefined in any other body. */
export function stringIn(body: string, ...path: readonly string[]): string | undefined {
  const found = path.reduce<unknown>(
    (parent, name) => (parent as Readonly<Record<string, unknown>> | null | undefined)?.[name],
    parseJson(body),
  );
  return typeof found === 'string' ? found : undefined;
}
