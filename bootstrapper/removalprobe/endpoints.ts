import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import type { Member } from '../../internal/etcd/index.ts';
import type { RotatingKey, RotatingPairs } from '../../internal/keyset/index.ts';
import {
  ProbeResult_Outcome as Outcome,
  type ProbeResult,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { consensusLayout, type EtcdName, type KeyPairFiles } from '../consensus/index.ts';
import { KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import type { MemberOnRecord } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { TEST_CREDENTIALS, type TestCredentialName } from './credentials.ts';
import { CLOSED, type ProbeAnswer } from './send-credential.ts';

/** The conclusion from an answer, and the answer in words, for the operator. */
export type Verdict = Pick<ProbeResult, 'outcome' | 'detail'>;

/** The verdict if nothing was proved. */
export function inconclusive(detail: string): Verdict {
  return { outcome: Outcome.INCONCLUSIVE, detail };
}

/**
 * Only these answers prove something. Other refusals affect all clients: the server's clock makes the certificate
 * not yet valid, the port is closed, or the server fails.
 */
type Proofs = Readonly<Record<'refused' | 'admitted', RegExp>>;

/** etcd refuses certificates in the TLS handshake; the other servers authenticate each request. */
const ETCD_SERVER: Proofs = { refused: /^TLS: unknown ca$/, admitted: /^HTTP / };
/** A curator refuses keys without a record. If the curator denies only the call, it has a record of the key. */
const CURATOR: Proofs = {
  refused: RegExp(`^(curator-not-member|${CLOSED})$`),
  admitted: /^(curator-denied|HTTP 200)$/,
};
/** 403 and 404 mean that the server authenticated the credential, so another credential of the same key could have permissions. */
const REQUEST: Proofs = { refused: /^HTTP 401\b/, admitted: /^HTTP (2\d\d|403|404)\b/ };
/** 403 is the expected refusal of a kubelet, by its record. 401 means that its CA is not trusted, so no record was checked. */
const REQUEST_OF_KUBELET: Proofs = { refused: /^HTTP 403\b/, admitted: /^HTTP (2\d\d|404)\b/ };

/** A member of the cluster that is probed, with its etcd members in both etcd clusters. */
type ProbedNode = MemberOnRecord & { readonly etcd: Readonly<Record<EtcdName, Member | undefined>> };

/** The facts about one kind of endpoint, and the credentials that are tested there. */
export interface EndpointRule {
  /** The URLs of such endpoints on a node. */
  readonly urls: (node: ProbedNode) => readonly string[] | undefined;
  /** The requested path; undefined: a curator is called. `nodeName` is a node whose kubelet may read its own Node object. */
  readonly path?: (nodeName: string) => string;
  /** The CA that must have issued the server's certificate. */
  readonly serverCa: keyof RotatingPairs;
  /** A credential that the endpoint must admit: if it refuses all clients, its refusals prove nothing. */
  readonly valid: KeyPairFiles;
  /** Certificates that the removed node had. */
  readonly own: readonly TestCredentialName[];
  /** Credentials that are created with the keys that the removed node may have held. */
  readonly held: readonly TestCredentialName[];
  /** Control-plane credentials for other endpoints, which this endpoint must always refuse. */
  readonly foreign: readonly TestCredentialName[];
  readonly proofs: (name: TestCredentialName) => Proofs;
}

/** The files of this node's members of both etcd clusters. */
const ETCD = consensusLayout(AGENT_PATHS.state, 'kubernetes');
const STATE = consensusLayout(AGENT_PATHS.state, 'state');
const API_SERVER_KEY = `${PATHS.pki}/apiserver-kubelet-client`;
const ETCD_CREDENTIALS = ['etcd-client', 'etcd-peer', 'state-etcd-client', 'state-etcd-peer'] as const;
const OWN = ['node', 'kubelet'] as const;
const KUBERNETES = {
  serverCa: 'kubernetes-ca',
  ...{ own: OWN, held: ['kubernetes-user', 'kubernetes-server', 'service-account'], foreign: [] },
  proofs: (name) => (name === 'kubelet' ? REQUEST_OF_KUBELET : REQUEST),
} as const satisfies Partial<EndpointRule>;

/** All kinds of endpoints. `etcd-*` are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd. */
export const ENDPOINT_RULES = {
  'etcd-client': etcdPort('etcd-clients-ca', ETCD.user('root'), ({ etcd }) => etcd.kubernetes?.clientUrls),
  'etcd-peer': etcdPort('etcd-peers-ca', ETCD.peer, ({ etcd }) => etcd.kubernetes?.peerUrls),
  'state-etcd-client': etcdPort('state-clients-ca', STATE.user('root'), ({ etcd }) => etcd.state?.clientUrls),
  'state-etcd-peer': etcdPort('state-peers-ca', STATE.peer, ({ etcd }) => etcd.state?.peerUrls),
  'api-server': {
    ...KUBERNETES,
    urls: (node) => (node.roles.includes('KubernetesController') ? [urlOf(node, PORTS.apiServer)] : []),
    path: (nodeName) => `/api/v1/nodes/${nodeName}`,
    valid: { certFile: KUBELET_FILES.clientCert, keyFile: KUBELET_FILES.clientKey },
    held: [...KUBERNETES.held, 'front-proxy'],
  },
  kubelet: {
    ...KUBERNETES,
    urls: (node) => [urlOf(node, PORTS.kubelet)],
    path: () => '/pods',
    valid: { certFile: `${API_SERVER_KEY}.crt`, keyFile: `${API_SERVER_KEY}.key` },
  },
  // The CLI checks the record of the node's own key. This probe checks certificates that the key of the
  // cluster CA could sign.
  curator: {
    urls: (node) => (node.roles.includes('ConsensusMember') ? [urlOf(node, PORTS.curator)] : []),
    serverCa: 'cluster-ca',
    valid: { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey },
    ...{ own: [], held: ['member', 'operator'], foreign: [] },
    proofs: () => CURATOR,
  },
} as const satisfies Readonly<Record<string, EndpointRule>>;

/**
 * A port of an etcd member. The member admits every certificate of one CA, which also issued the member's own
 * certificate, and no other certificate.
 */
function etcdPort(ca: RotatingKey, valid: KeyPairFiles, urls: EndpointRule['urls']): EndpointRule {
  const { held = [], foreign = [] } = Object.groupBy(ETCD_CREDENTIALS, (name) =>
    TEST_CREDENTIALS[name][0] === ca ? 'held' : 'foreign',
  );
  const tests = { own: OWN, held, foreign };
  return { urls, path: () => '/version', serverCa: ca, valid, ...tests, proofs: () => ETCD_SERVER };
}

function urlOf({ status }: MemberOnRecord, port: number): string {
  return `https://${formatEndpoint(status?.address ?? '', port)}`;
}

/** Decides what the answer of an endpoint to a credential proves. Only a refusal for the expected reason counts. Pure. */
export function judgeAnswer(
  { proofs }: Pick<EndpointRule, 'proofs'>,
  name: TestCredentialName,
  detail: ProbeAnswer,
): Verdict {
  const { refused, admitted } = proofs(name);
  if (refused.test(detail)) return { outcome: Outcome.REFUSED, detail };
  return admitted.test(detail) ? { outcome: Outcome.ADMITTED, detail } : inconclusive(detail);
}

/** An endpoint to which test credentials are presented. */
export interface Endpoint {
  /** Its key in `ENDPOINT_RULES`, as reports name it. */
  readonly kind: string;
  readonly rule: EndpointRule;
  /** Name of the node that runs this endpoint. */
  readonly node: string;
  /** "host:port", IPv6 in brackets. */
  readonly address: string;
}

/**
 * Finds every endpoint of every live member of the cluster, from the records and the members of both etcd clusters. No caller
 * chooses an endpoint. Pure.
 * @returns also the names of members without heartbeat or address
 */
export function findEndpoints(
  members: readonly MemberOnRecord[],
  etcdMembers: Readonly<Record<EtcdName, readonly Member[]>>,
): { readonly endpoints: readonly Endpoint[]; readonly away: string[] } {
  const { here = [], away = [] } = Object.groupBy(members, ({ isAlive, status }) =>
    isAlive && (status?.address ?? '') !== '' ? 'here' : 'away',
  );
  const endpoints = here.flatMap((member) => {
    const of = (etcd: EtcdName) => etcdMembers[etcd].find(({ name }) => name === member.nodeId);
    const node = { ...member, etcd: { kubernetes: of('kubernetes'), state: of('state') } };
    return Object.entries<EndpointRule>(ENDPOINT_RULES).flatMap(([kind, rule]) =>
      (rule.urls(node) ?? []).map((url) => ({ kind, rule, node: member.name, address: new URL(url).host })),
    );
  });
  return { endpoints, away: away.map(({ name }) => name) };
}
