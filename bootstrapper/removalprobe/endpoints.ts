import { formatEndpoint, PORTS, splitEndpoint, type HostPort } from '../../internal/endpoint/index.ts';
import type { Entry, Member } from '../../internal/etcd/index.ts';
import { consensusLayout, type EtcdName, type KeyPairFiles } from '../consensus/index.ts';
import { KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { membersOnRecord, type MemberOnRecord } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import type { SharedKeyName, TestCredentialName } from './credentials.ts';
import { ANSWERED, CLOSED, type ProbeAnswer } from './send-credential.ts';

/** The conclusion from an answer, and the answer in words, for the operator. */
export interface Verdict {
  readonly outcome: 'refused' | 'admitted' | 'inconclusive';
  readonly detail: string;
}

/** The verdict if nothing was proved. */
export function inconclusive(detail: string): Verdict {
  return { outcome: 'inconclusive', detail };
}

/**
 * Only these answers prove something. Other refusals affect all clients: the server's clock makes the certificate
 * not yet valid, the port is closed, or the server fails.
 */
type Proofs = Readonly<Record<'refused' | 'admitted', RegExp>>;

/** etcd refuses certificates in the TLS handshake; the other servers authenticate each request. */
const ETCD_SERVER: Proofs = { refused: /^TLS: unknown ca$/, admitted: /^HTTP / };
/** A curator refuses keys without a record. If it only denies the call, it knows the caller. */
const CURATOR: Proofs = {
  refused: RegExp(`^(curator-not-member|${CLOSED})$`),
  admitted: RegExp(`^(curator-denied|${ANSWERED})$`),
};
/** 403 and 404 mean that the server authenticated the credential, so another credential of the same key could have permissions. */
const REQUEST: Proofs = { refused: /^HTTP 401\b/, admitted: /^HTTP (2\d\d|403|404)\b/ };
/** 403 is the expected refusal of a kubelet, by its record. 401 means that its CA is not trusted, so no record was checked. */
const REQUEST_OF_KUBELET: Proofs = { refused: /^HTTP 403\b/, admitted: /^HTTP (2\d\d|404)\b/ };

/** The files of this node's members of both etcd clusters. */
const ETCD = consensusLayout(AGENT_PATHS.state, 'kubernetes');
const STATE = consensusLayout(AGENT_PATHS.state, 'state');
const KUBELET = { certFile: KUBELET_FILES.clientCert, keyFile: KUBELET_FILES.clientKey };
const API_SERVER_KEY = `${PATHS.pki}/apiserver-kubelet-client`;
const API_SERVER = { certFile: `${API_SERVER_KEY}.crt`, keyFile: `${API_SERVER_KEY}.key` };
const NODE = { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey };
const OF_KUBERNETES = ['kubernetes-user', 'kubernetes-server', 'service-account'] as const;

/**
 * Kinds of endpoints, and what is tested there in addition to the certificates of the removed node. `etcd-*`
 * are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd.
 */
export const ENDPOINT_RULES = {
  'etcd-client': rule('etcd-clients-ca', ETCD.user('root'), ['etcd-client'], ['state-etcd-client']),
  'etcd-peer': rule('etcd-peers-ca', ETCD.peer, ['etcd-peer'], ['etcd-client', 'state-etcd-peer']),
  'state-etcd-client': rule('state-clients-ca', STATE.user('root'), ['state-etcd-client'], ['etcd-client']),
  'state-etcd-peer': rule(
    'state-peers-ca',
    STATE.peer,
    ['state-etcd-peer'],
    ['state-etcd-client', 'etcd-peer'],
  ),
  'api-server': rule('kubernetes-ca', KUBELET, [...OF_KUBERNETES, 'front-proxy']),
  kubelet: rule('kubernetes-ca', API_SERVER, OF_KUBERNETES),
  // The CLI checks the record of the node's own key. This probe checks certificates that the key of the
  // cluster CA could sign.
  curator: rule('cluster-ca', NODE, ['member', 'operator']),
};

/**
 * @param serverCa the CA that must have issued the server's certificate
 * @param valid a credential that the endpoint must admit: if it refuses all clients, its refusals prove nothing
 * @param held credentials that are created with the keys that the removed node may have held
 * @param foreign control-plane credentials for other endpoints, which this endpoint must always refuse
 */
function rule(
  serverCa: SharedKeyName,
  valid: KeyPairFiles,
  held: readonly TestCredentialName[],
  foreign: readonly TestCredentialName[] = [],
) {
  return { serverCa, valid, held, foreign };
}

/** A kind of endpoint, as reports name it. */
export type EndpointKind = keyof typeof ENDPOINT_RULES;

/**
 * The credentials that are tested at a kind of endpoint, with the generation of the keys that create them (0:
 * the current keys). The certificates that the removed node had are not tested at curators: the CLI checks
 * the record of the node's key instead. Pure.
 */
export function credentialsFor(
  kind: EndpointKind,
  { heldKeys, generation }: { readonly heldKeys: boolean; readonly generation: number },
): readonly { readonly name: TestCredentialName; readonly generation: number }[] {
  const ofNode = kind === 'curator' ? [] : (['node', 'kubelet'] as const);
  const { foreign, held } = heldKeys ? ENDPOINT_RULES[kind] : { foreign: [], held: [] };
  return [
    ...[...ofNode, ...foreign].map((name) => ({ name, generation: 0 })),
    ...held.map((name) => ({ name, generation })),
  ];
}

/** Decides what the answer of an endpoint to a credential proves. Only a refusal for the expected reason counts. Pure. */
export function judgeAnswer(kind: EndpointKind, name: TestCredentialName, text: ProbeAnswer): Verdict {
  const ofRequest = name === 'kubelet' ? REQUEST_OF_KUBELET : REQUEST;
  const proofs = isEtcd(kind) ? ETCD_SERVER : kind === 'curator' ? CURATOR : ofRequest;
  const found = (['refused', 'admitted'] as const).find((outcome) => proofs[outcome].test(text));
  return { outcome: found ?? 'inconclusive', detail: text };
}

/** The requested path. `name` is a node whose kubelet may read its own Node object. */
export function pathFor(kind: EndpointKind, name: string): string {
  if (isEtcd(kind)) return '/version';
  return kind === 'api-server' ? `/api/v1/nodes/${name}` : '/pods';
}

function isEtcd(kind: EndpointKind): boolean {
  return kind.includes('etcd-');
}

/** An endpoint to which test credentials are presented. */
export interface Endpoint extends HostPort {
  readonly kind: EndpointKind;
  /** Name of the node that runs this endpoint. */
  readonly node: string;
}

/** The members of both etcd clusters. */
export type EtcdMemberLists = Readonly<Record<EtcdName, readonly Member[]>>;

/**
 * Finds every endpoint of every live member, from the records of the cluster and the members of both etcd
 * clusters. No caller chooses an endpoint. Pure.
 * @returns also the names of members without heartbeat or address
 */
export function findEndpoints(
  entries: readonly Pick<Entry, 'key' | 'value'>[],
  etcdMembers: EtcdMemberLists,
): { readonly endpoints: readonly Endpoint[]; readonly away: readonly string[] } {
  const members = membersOnRecord(entries);
  const isHere = ({ isAlive, status }: MemberOnRecord) => isAlive && (status?.address ?? '') !== '';
  return {
    endpoints: members.filter(isHere).flatMap((member) => endpointsOf(member, etcdMembers)),
    away: members.filter((member) => !isHere(member)).map(({ name }) => name),
  };
}

function endpointsOf(
  { nodeId, name: node, roles, status }: MemberOnRecord,
  etcdMembers: EtcdMemberLists,
): readonly Endpoint[] {
  const [kubernetes, state] = [etcdMembers.kubernetes, etcdMembers.state].map((members) =>
    members.find(({ name }) => name === nodeId),
  );
  const at = (port: number): string => `https://${formatEndpoint(status?.address ?? '', port)}`;
  const found: readonly (readonly [EndpointKind, readonly string[] | undefined])[] = [
    ['etcd-client', kubernetes?.clientUrls],
    ['etcd-peer', kubernetes?.peerUrls],
    ['state-etcd-client', state?.clientUrls],
    ['state-etcd-peer', state?.peerUrls],
    ['api-server', roles.includes('KubernetesController') ? [at(PORTS.apiServer)] : []],
    ['kubelet', [at(PORTS.kubelet)]],
    ['curator', roles.includes('ConsensusMember') ? [at(PORTS.curator)] : []],
  ];
  return found.flatMap(([kind, urls = []]) =>
    urls.map((url) => ({ kind, node, ...splitEndpoint(new URL(url).host) })),
  );
}
