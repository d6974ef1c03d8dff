import type { EndpointKind } from './endpoints.ts';
import type { ProbeAnswer } from './probe-endpoint.ts';
import type { TestCredentialName } from './test-credentials.ts';

/** The conclusion from an endpoint's answer. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  /** The answer in words, for the operator. */
  readonly detail: string;
}

/**
 * Results of a curator's error codes. A curator refuses keys without a record. If a curator only denies the
 * call, it knows the caller.
 */
const CURATOR_OUTCOMES: Readonly<Partial<Record<string, Verdict['outcome']>>> = {
  'curator-not-member': 'refused',
  'curator-denied': 'admitted',
};

/**
 * Whether this is an etcd endpoint. etcd refuses certificates in the TLS handshake; the other servers
 * authenticate each request.
 */
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
  try {
    let found: unknown = JSON.parse(body);
    for (const name of path) found = (found as Readonly<Record<string, unknown>>)[name];
    return typeof found === 'string' ? found : undefined;
  } catch {
    return undefined;
  }
}
