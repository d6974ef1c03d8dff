import type { ProbeAnswer } from './probe-endpoint.ts';
import type { CaName } from './signing-keys.ts';
import type { TestCredentialName } from './test-credentials.ts';

/** `etcd-*` are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd. */
export type EndpointKind =
  | 'etcd-client'
  | 'etcd-peer'
  | 'state-etcd-client'
  | 'state-etcd-peer'
  | 'api-server'
  | 'kubelet'
  | 'curator';

/** Where test credentials are presented. */
export interface Endpoint {
  readonly kind: EndpointKind;
  /** Name of its node. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
}

/** What an answer proves. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  /** The answer, for people. */
  readonly detail: string;
}

/** How an endpoint is probed. */
interface EndpointRule {
  /** Path of the request; `name` is the id of the removed node, or the name of this node for a valid credential. */
  readonly path: (name: string) => string;
  /** The CA that the server's own certificate must be of. */
  readonly serverCa: CaName;
  /** Credentials of the removed node, made with the current keys: its record must decide. */
  readonly ofNode: readonly TestCredentialName[];
  /** Credentials of a control plane for another endpoint; always refused here. */
  readonly foreign: readonly TestCredentialName[];
  /** Credentials made with the keys that the removed node may have held, for endpoints that trust these keys. */
  readonly ofHeldKeys: readonly TestCredentialName[];
  /** Whether the TLS handshake refuses certificates of other CAs. */
  readonly refusesInHandshake: boolean;
}

const OF_NODE = ['node', 'kubelet'] as const;

function etcdRule(
  serverCa: CaName,
  accepted: TestCredentialName,
  foreign: readonly TestCredentialName[],
): EndpointRule {
  const path = (): string => '/version';
  return { path, serverCa, ofNode: OF_NODE, foreign, ofHeldKeys: [accepted], refusesInHandshake: true };
}

/** etcd decides in the TLS handshake; the other servers answer everybody and authenticate each request. */
export const ENDPOINT_RULES: Readonly<Record<EndpointKind, EndpointRule>> = {
  'etcd-client': etcdRule('etcd-clients-ca', 'etcd-client', ['state-etcd-client']),
  'etcd-peer': etcdRule('etcd-peers-ca', 'etcd-peer', ['etcd-client', 'state-etcd-peer']),
  'state-etcd-client': etcdRule('state-clients-ca', 'state-etcd-client', ['etcd-client']),
  'state-etcd-peer': etcdRule('state-peers-ca', 'state-etcd-peer', ['state-etcd-client', 'etcd-peer']),
  'api-server': {
    path: (name) => `/api/v1/nodes/${name}`, // a member's kubelet may read its own Node
    serverCa: 'kubernetes-ca',
    ofNode: OF_NODE,
    foreign: [],
    ofHeldKeys: ['kubernetes-user', 'kubernetes-server', 'front-proxy', 'service-account'],
    refusesInHandshake: false,
  },
  kubelet: {
    path: () => '/pods',
    serverCa: 'kubernetes-ca',
    ofNode: OF_NODE,
    foreign: [],
    ofHeldKeys: ['kubernetes-user', 'kubernetes-server', 'service-account'],
    refusesInHandshake: false,
  },
  // The CLI checks the record of the node's own key; this checks what the key of the cluster CA could sign.
  curator: {
    path: () => '/',
    serverCa: 'cluster-ca',
    ofNode: [],
    foreign: [],
    ofHeldKeys: ['member', 'operator'],
    refusesInHandshake: false,
  },
};

/**
 * What an answer proves. Only a refusal for the expected reason counts: a certificate that is not valid yet by the clock of
 * the server, a closed port or a failing server refuses everybody. Pure.
 */
export function judgeAnswer(
  kind: EndpointKind,
  credential: TestCredentialName,
  answer: ProbeAnswer,
): Verdict {
  const { refusesInHandshake } = ENDPOINT_RULES[kind];
  switch (answer.kind) {
    case 'failed':
      return { outcome: 'inconclusive', detail: answer.why };
    case 'alert': {
      const isRefused = refusesInHandshake && answer.alert === 'UNKNOWN_CA';
      const detail = `TLS: ${answer.alert.toLowerCase().replaceAll('_', ' ')}`;
      return { outcome: isRefused ? 'refused' : 'inconclusive', detail };
    }
    case 'code':
      return { outcome: CURATOR_OUTCOMES[answer.code] ?? 'inconclusive', detail: answer.code };
    case 'status': {
      if (kind === 'curator') return { outcome: 'admitted', detail: 'answered' };
      const detail = `HTTP ${answer.status}${messageIn(answer.body)}`;
      return { outcome: refusesInHandshake ? 'admitted' : outcomeOf(answer.status, credential), detail };
    }
  }
}

/** A curator refuses keys without a record; a caller that is only denied a call is known. */
const CURATOR_OUTCOMES: Readonly<Partial<Record<string, Verdict['outcome']>>> = {
  'curator-not-member': 'refused',
  'curator-denied': 'admitted',
};

/**
 * 403 and 404 mean that the server authenticated the credential: with the same key it could carry rights. A kubelet is the
 * exception: 403 is the expected refusal by its record, and 401 says that its CA is not trusted, so no record was checked.
 */
function outcomeOf(status: number, credential: TestCredentialName): Verdict['outcome'] {
  if (status === (credential === 'kubelet' ? 403 : 401)) return 'refused';
  const isAuthenticated = status === 403 || status === 404 || (status >= 200 && status < 300);
  return isAuthenticated ? 'admitted' : 'inconclusive';
}

/** The `message` of a Kubernetes Status. */
function messageIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    return typeof message === 'string' ? `: ${message.slice(0, 300)}` : '';
  } catch {
    return '';
  }
}
