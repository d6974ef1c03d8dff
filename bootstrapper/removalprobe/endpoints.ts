import type { ProbeAnswer } from './probe-endpoint.ts';
import type { CaName } from './signing-keys.ts';
import type { TestCredentialName } from './test-credentials.ts';

/**
 * Kinds of endpoints. `etcd-*` are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd.
 */
export type EndpointKind =
  | 'etcd-client'
  | 'etcd-peer'
  | 'state-etcd-client'
  | 'state-etcd-peer'
  | 'api-server'
  | 'kubelet'
  | 'curator';

/** An endpoint to which test credentials are presented. */
export interface Endpoint {
  readonly kind: EndpointKind;
  /** Name of the node that runs this endpoint. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
}

/** What an endpoint's answer proves. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  /** The answer in words, for the operator. */
  readonly detail: string;
}

/** The credentials and the CA for probing one kind of endpoint. */
interface EndpointRule {
  /** The CA that must have issued the server's certificate. */
  readonly serverCa: CaName;
  /** Control-plane credentials for other endpoints. This endpoint must always refuse them. */
  readonly foreign: readonly TestCredentialName[];
  /**
   * Credentials that are created with the keys that the removed node may have held. They are for endpoints
   * that trust these keys.
   */
  readonly ofHeldKeys: readonly TestCredentialName[];
}

const KUBELET_RULE: EndpointRule = {
  serverCa: 'kubernetes-ca',
  foreign: [],
  ofHeldKeys: ['kubernetes-user', 'kubernetes-server', 'service-account'],
};

/** Credentials that are tested at each kind of endpoint, in addition to those of the removed node itself. */
export const ENDPOINT_RULES: Readonly<Record<EndpointKind, EndpointRule>> = {
  'etcd-client': etcdRule('etcd-clients-ca', 'etcd-client', ['state-etcd-client']),
  'etcd-peer': etcdRule('etcd-peers-ca', 'etcd-peer', ['etcd-client', 'state-etcd-peer']),
  'state-etcd-client': etcdRule('state-clients-ca', 'state-etcd-client', ['etcd-client']),
  'state-etcd-peer': etcdRule('state-peers-ca', 'state-etcd-peer', ['state-etcd-client', 'etcd-peer']),
  'api-server': { ...KUBELET_RULE, ofHeldKeys: [...KUBELET_RULE.ofHeldKeys, 'front-proxy'] },
  kubelet: KUBELET_RULE,
  // The CLI checks the record of the node's own key. This probe checks certificates that the key of the
  // cluster CA could sign.
  curator: { serverCa: 'cluster-ca', foreign: [], ofHeldKeys: ['member', 'operator'] },
};

function etcdRule(
  serverCa: CaName,
  accepted: TestCredentialName,
  foreign: readonly TestCredentialName[],
): EndpointRule {
  return { serverCa, foreign, ofHeldKeys: [accepted] };
}

/**
 * The certificates that the removed node had. For curators the list is empty, because the CLI checks the
 * record of the node's key instead.
 */
export function credentialsOfNode(kind: EndpointKind): readonly TestCredentialName[] {
  return kind === 'curator' ? [] : ['node', 'kubelet'];
}

/** The requested path. `name` is a node whose kubelet may read its own Node object. */
export function pathFor(kind: EndpointKind, name: string): string {
  if (isEtcd(kind)) return '/version';
  return kind === 'api-server' ? `/api/v1/nodes/${name}` : '/pods';
}

/**
 * Whether this is an etcd endpoint. etcd refuses certificates in the TLS handshake; the other servers
 * authenticate each request.
 */
function isEtcd(kind: EndpointKind): boolean {
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
      const detail = `HTTP ${answer.status}${messageIn(answer.body)}`;
      return { outcome: isEtcd(kind) ? 'admitted' : outcomeOf(answer.status, credential), detail };
    }
  }
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
 * Returns the result of an HTTP status. 403 and 404 mean that the server authenticated the credential, so
 * another credential of the same key could have permissions. A kubelet is the exception: 403 is the expected
 * refusal by its record, and 401 means that its CA is not trusted, so no record was checked.
 */
function outcomeOf(status: number, credential: TestCredentialName): Verdict['outcome'] {
  if (status === (credential === 'kubelet' ? 403 : 401)) return 'refused';
  const isAuthenticated = status === 403 || status === 404 || (status >= 200 && status < 300);
  return isAuthenticated ? 'admitted' : 'inconclusive';
}

/** Returns the `message` of a Kubernetes Status. */
function messageIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    return typeof message === 'string' ? `: ${message.slice(0, 300)}` : '';
  } catch {
    return '';
  }
}
