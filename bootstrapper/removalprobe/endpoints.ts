import type { ProbeAnswer } from './probe-endpoint.ts';
import type { CaName, TestCredentialName } from './test-credentials.ts';

/** `etcd-*` are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd. */
export const ENDPOINT_KINDS = [
  'etcd-client',
  'etcd-peer',
  'state-etcd-client',
  'state-etcd-peer',
  'api-server',
  'kubelet',
  'curator',
] as const;
export type EndpointKind = (typeof ENDPOINT_KINDS)[number];

/** Where papers are shown. */
export interface Endpoint {
  readonly kind: EndpointKind;
  /** Name of the node that it is on. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
}

export type Outcome = 'refused' | 'let-in' | 'unproved';

export interface Verdict {
  readonly outcome: Outcome;
  /** For people: what was answered. */
  readonly detail: string;
}

interface EndpointRule {
  /** What is asked for. The removed node's own id is put in. */
  readonly path: (nodeId: string) => string;
  /** Whom the server itself has to be known by. */
  readonly server: CaName;
  /** Papers of the removed node, made with the keys of now: whoever it is, its record decides. */
  readonly own: readonly TestCredentialName[];
  /** Of a control plane: good at another door, and never at this one. */
  readonly strange: readonly TestCredentialName[];
  /** What the keys that it may have held make, for a door that goes by them. */
  readonly shared: readonly TestCredentialName[];
  /** Only a certificate of this authority is looked at at all. */
  readonly handshake: boolean;
}

/** How each door is tried. etcd decides in the handshake; the others let everybody speak, and then see who it is. */
export const ENDPOINT_RULES: Readonly<Record<EndpointKind, EndpointRule>> = {
  'etcd-client': {
    path: () => '/version',
    server: 'etcd-clients-ca',
    own: ['node', 'kubelet'],
    strange: ['state-etcd-client'],
    shared: ['etcd-client'],
    handshake: true,
  },
  'etcd-peer': {
    path: () => '/version',
    server: 'etcd-peers-ca',
    own: ['node', 'kubelet'],
    strange: ['etcd-client', 'state-etcd-peer'],
    shared: ['etcd-peer'],
    handshake: true,
  },
  'state-etcd-client': {
    path: () => '/version',
    server: 'state-clients-ca',
    own: ['node', 'kubelet'],
    strange: ['etcd-client'],
    shared: ['state-etcd-client'],
    handshake: true,
  },
  'state-etcd-peer': {
    path: () => '/version',
    server: 'state-peers-ca',
    own: ['node', 'kubelet'],
    strange: ['state-etcd-client', 'etcd-peer'],
    shared: ['state-etcd-peer'],
    handshake: true,
  },
  // A member's kubelet may read its own Node.
  'api-server': {
    path: (nodeId) => `/api/v1/nodes/${nodeId}`,
    server: 'kubernetes-ca',
    own: ['node', 'kubelet'],
    strange: [],
    shared: ['kubernetes-user', 'kubernetes-server', 'front-proxy', 'service-account'],
    handshake: false,
  },
  kubelet: {
    path: () => '/pods',
    server: 'kubernetes-ca',
    own: ['node', 'kubelet'],
    strange: [],
    shared: ['kubernetes-user', 'kubernetes-server', 'service-account'],
    handshake: false,
  },
  // The node's own key is asked about by its record (cli/admin); here it is what the cluster's authority could make.
  curator: {
    path: () => '/',
    server: 'cluster-ca',
    own: [],
    strange: [],
    shared: ['member', 'operator'],
    handshake: false,
  },
};

/**
 * What an answer proves. Only a refusal for the stated reason is one: a certificate that is too young for the door's
 * clock, a port that is shut, a program that fails refuse everybody and prove nothing. Pure.
 */
export function judgeAnswer(kind: EndpointKind, paper: TestCredentialName, answer: ProbeAnswer): Verdict {
  if (answer.kind === 'failed') return { outcome: 'unproved', detail: answer.why };
  if (answer.kind === 'alert') return judgeAlert(kind, answer.alert);
  if (answer.kind === 'code') return judgeCode(answer.code);
  const { status, body } = answer;
  const said = `HTTP ${status}${reasonIn(body)}`;
  if (kind === 'curator') return { outcome: 'let-in', detail: 'answered' };
  if (ENDPOINT_RULES[kind].handshake) return { outcome: 'let-in', detail: said };
  const refusal = paper === 'kubelet' ? 403 : 401;
  if (status === refusal) return { outcome: 'refused', detail: said };
  // Known, and allowed nothing: whoever can make this paper can make one with rights. And what is found or missing was
  // looked for. 401 for a kubelet is neither: its authority was not believed, so nobody looked at the node.
  const isKnown = status === 403 || status === 404 || (status >= 200 && status < 300);
  return { outcome: isKnown ? 'let-in' : 'unproved', detail: said };
}

function judgeAlert(kind: EndpointKind, alert: string): Verdict {
  const said = `TLS: ${alert.toLowerCase().replaceAll('_', ' ')}`;
  const refused = ENDPOINT_RULES[kind].handshake && alert === 'UNKNOWN_CA';
  return { outcome: refused ? 'refused' : 'unproved', detail: said };
}

/** A curator goes by the key on record; whoever is only denied something is known. */
function judgeCode(code: string): Verdict {
  if (code === 'curator-not-member') return { outcome: 'refused', detail: code };
  return { outcome: code === 'curator-denied' ? 'let-in' : 'unproved', detail: code };
}

/** The `message` of a Status of the Kubernetes API; what others say is left out. */
function reasonIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    return typeof message === 'string' ? `: ${message.slice(0, 300)}` : '';
  } catch {
    return '';
  }
}
