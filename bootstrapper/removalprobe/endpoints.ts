import { fromBinary } from '@bufbuild/protobuf';
import { PORTS, splitEndpoint } from '../../internal/endpoint/index.ts';
import type { Entry, Member } from '../../internal/etcd/index.ts';
import { parseNodeKey, records, type NodeRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { consensusLayout, type EtcdName, type KeyPairFiles } from '../consensus/index.ts';
import { KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import type { SharedKeyName, TestCredentialName } from './credentials.ts';

const ETCD = consensusLayout(AGENT_PATHS.state, 'kubernetes');
const STATE_ETCD = consensusLayout(AGENT_PATHS.state, 'state');
const KUBELET = { certFile: KUBELET_FILES.clientCert, keyFile: KUBELET_FILES.clientKey };
const API_SERVER = {
  certFile: `${PATHS.pki}/apiserver-kubelet-client.crt`,
  keyFile: `${PATHS.pki}/apiserver-kubelet-client.key`,
};
const NODE = { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey };
const OF_KUBERNETES = ['kubernetes-user', 'kubernetes-server', 'service-account'] as const;

/**
 * Kinds of endpoints, and what is tested there in addition to the certificates of the removed node. `etcd-*`
 * are the ports of the Kubernetes etcd, `state-etcd-*` those of the state etcd.
 */
export const ENDPOINT_RULES = {
  'etcd-client': rule('etcd-clients-ca', ETCD.user('root'), ['etcd-client'], ['state-etcd-client']),
  'etcd-peer': rule('etcd-peers-ca', ETCD.peer, ['etcd-peer'], ['etcd-client', 'state-etcd-peer']),
  'state-etcd-client': rule(
    'state-clients-ca',
    STATE_ETCD.user('root'),
    ['state-etcd-client'],
    ['etcd-client'],
  ),
  'state-etcd-peer': rule(
    'state-peers-ca',
    STATE_ETCD.peer,
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

/** Credentials of held keys that agents tested before requests named a generation. */
const WITHOUT_GENERATION = /etcd|kubernetes-user/;

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
  const tested = held.filter((name) => generation > 0 || WITHOUT_GENERATION.test(name));
  return [
    ...[...ofNode, ...foreign].map((name) => ({ name, generation: 0 })),
    ...tested.map((name) => ({ name, generation })),
  ];
}

/** An endpoint to which test credentials are presented. */
export interface Endpoint {
  readonly kind: EndpointKind;
  /** Name of the node that runs this endpoint. */
  readonly node: string;
  readonly host: string;
  readonly port: number;
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
  const values = new Map(entries.map(({ key, value }) => [key, value]));
  const endpoints: Endpoint[] = [];
  const away: string[] = [];
  for (const { key, value } of entries) {
    if (parseNodeKey(key)?.part !== 'record') continue;
    const record = records.node.decode(key, value);
    if (!isMemberState(record.state)) continue;
    const statusKey = records.status.key(record.nodeId);
    const host = addressIn(statusKey, values.get(statusKey));
    const isAlive = values.has(records.heartbeat.key(record.nodeId));
    if (isAlive && host !== '') endpoints.push(...endpointsOf(record, host, etcdMembers));
    else away.push(record.name);
  }
  return { endpoints, away };
}

/** The address that the node reported; empty before its first report. */
function addressIn(statusKey: string, value: Uint8Array | undefined): string {
  if (value === undefined) return '';
  const { status } = records.status.decode(statusKey, value);
  return fromBinary(NodeStatusSchema, Buffer.from(status, 'base64')).address;
}

function endpointsOf(
  { nodeId, name: node, roles }: NodeRecord,
  host: string,
  etcdMembers: EtcdMemberLists,
): readonly Endpoint[] {
  const at = (kind: EndpointKind, port: number): Endpoint => ({ kind, node, host, port });
  const atUrls = (kind: EndpointKind, urls: readonly string[] = []): readonly Endpoint[] =>
    urls.map((url) => ({ kind, node, ...splitEndpoint(new URL(url).host) }));
  const [kubernetes, state] = [etcdMembers.kubernetes, etcdMembers.state].map((members) =>
    members.find(({ name }) => name === nodeId),
  );
  return [
    ...atUrls('etcd-client', kubernetes?.clientUrls),
    ...atUrls('etcd-peer', kubernetes?.peerUrls),
    ...atUrls('state-etcd-client', state?.clientUrls),
    ...atUrls('state-etcd-peer', state?.peerUrls),
    ...(roles.includes('KubernetesController') ? [at('api-server', PORTS.apiServer)] : []),
    at('kubelet', PORTS.kubelet),
    ...(roles.includes('ConsensusMember') ? [at('curator', PORTS.curator)] : []),
  ];
}
