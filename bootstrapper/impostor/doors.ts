import type { Answer } from './knock.ts';
import type { Authority, PaperName } from './papers.ts';

/** `etcd-*` are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd. */
export const DOOR_KINDS = [
  'etcd-client',
  'etcd-peer',
  'state-etcd-client',
  'state-etcd-peer',
  'api-server',
  'kubelet',
  'curator',
] as const;
export type DoorKind = (typeof DOOR_KINDS)[number];

/** Where papers are shown. */
export interface Door {
  readonly kind: DoorKind;
  /** Name of the node that it is on. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
}

export type Outcome = 'refused' | 'let-in' | 'unproved';

export interface Verdict {
  readonly outcome: Outcome;
  /** For people: what was answered. */
  readonly said: string;
}

interface Manner {
  /** What is asked for. The removed node's own id is put in. */
  readonly path: (nodeId: string) => string;
  /** Whom the server itself has to be known by. */
  readonly server: Authority;
  /** Papers of the removed node, made with the keys of now: whoever it is, its record decides. */
  readonly own: readonly PaperName[];
  /** Of a control plane: good at another door, and never at this one. */
  readonly strange: readonly PaperName[];
  /** What the keys that it may have held make, for a door that goes by them. */
  readonly shared: readonly PaperName[];
  /** Only a certificate of this authority is looked at at all. */
  readonly handshake: boolean;
}

/** How each door is tried. etcd decides in the handshake; the others let everybody speak, and then see who it is. */
export const MANNERS: Readonly<Record<DoorKind, Manner>> = {
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
export function judge(kind: DoorKind, paper: PaperName, answer: Answer): Verdict {
  if (answer.kind === 'failed') return { outcome: 'unproved', said: answer.why };
  if (answer.kind === 'alert') return judgeAlert(kind, answer.alert);
  if (answer.kind === 'code') return judgeCode(answer.code);
  const { status, body } = answer;
  const said = `HTTP ${status}${reasonIn(body)}`;
  if (kind === 'curator') return { outcome: 'let-in', said: 'answered' };
  if (MANNERS[kind].handshake) return { outcome: 'let-in', said };
  const refusal = paper === 'kubelet' ? 403 : 401;
  if (status === refusal) return { outcome: 'refused', said };
  // Known, and allowed nothing: whoever can make this paper can make one with rights. And what is found or missing was
  // looked for. 401 for a kubelet is neither: its authority was not believed, so nobody looked at the node.
  const isKnown = status === 403 || status === 404 || (status >= 200 && status < 300);
  return { outcome: isKnown ? 'let-in' : 'unproved', said };
}

function judgeAlert(kind: DoorKind, alert: string): Verdict {
  const said = `TLS: ${alert.toLowerCase().replaceAll('_', ' ')}`;
  const refused = MANNERS[kind].handshake && alert === 'UNKNOWN_CA';
  return { outcome: refused ? 'refused' : 'unproved', said };
}

/** A curator goes by the key on record; whoever is only denied something is known. */
function judgeCode(code: string): Verdict {
  if (code === 'curator-not-member') return { outcome: 'refused', said: code };
  return { outcome: code === 'curator-denied' ? 'let-in' : 'unproved', said: code };
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
