import { fromBinary } from '@bufbuild/protobuf';
import { PORTS, splitEndpoint } from '../../internal/endpoint/index.ts';
import type { Entry, Member } from '../../internal/etcd/index.ts';
import { parseNodeKey, records, type NodeRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Endpoint, EndpointKind } from './endpoints.ts';

/** The members of both etcd clusters. */
export interface EtcdMemberLists {
  readonly state: readonly Member[];
  readonly kubernetes: readonly Member[];
}

/**
 * Finds every endpoint of every live member, from the records of the cluster and the member lists of etcd. No
 * caller chooses an endpoint. Pure.
 * @returns also the names of members without heartbeat or address
 */
export function findEndpoints(
  entries: readonly Pick<Entry, 'key' | 'value'>[],
  members: EtcdMemberLists,
): { readonly endpoints: readonly Endpoint[]; readonly away: readonly string[] } {
  const values = new Map(entries.map(({ key, value }) => [key, value]));
  const endpoints: Endpoint[] = [];
  const away: string[] = [];
  for (const { key, value } of entries) {
    if (parseNodeKey(key)?.part !== 'record') continue;
    const record = records.node.decode(key, value);
    if (!isMemberState(record.state)) continue;
    const host = addressOf(record, values.get(records.status.key(record.nodeId)));
    const isAlive = values.has(records.heartbeat.key(record.nodeId));
    if (isAlive && host !== '') endpoints.push(...endpointsOf(record, host, members));
    else away.push(record.name);
  }
  return { endpoints, away };
}

/** The address that the node reported; empty before its first report. */
function addressOf({ nodeId }: NodeRecord, value: Uint8Array | undefined): string {
  if (value === undefined) return '';
  const { status } = records.status.decode(records.status.key(nodeId), value);
  return fromBinary(NodeStatusSchema, Buffer.from(status, 'base64')).address;
}

function endpointsOf(
  { nodeId, name: node, roles }: NodeRecord,
  host: string,
  members: EtcdMemberLists,
): readonly Endpoint[] {
  const atUrls = (kind: EndpointKind, urls: readonly string[] = []): readonly Endpoint[] =>
    urls.map((url) => ({ kind, node, ...splitEndpoint(new URL(url).host) }));
  const at = (kind: EndpointKind, port: number): Endpoint => ({ kind, node, host, port });
  const kubernetes = members.kubernetes.find(({ name }) => name === nodeId);
  const state = members.state.find(({ name }) => name === nodeId);
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
