import { fromBinary } from '@bufbuild/protobuf';
import type { Entry, Member } from '../../internal/etcd/index.ts';
import { parseNodeKey, records, type NodeRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Endpoint, EndpointKind } from './endpoints.ts';

const API_PORT = 6443;
const KUBELET_PORT = 10250;
/** As the agent has its curator listen. */
const CURATOR_PORT = 9091;

/**
 * Every door of every node whose heart beats, from the cluster's own records and etcd's members: nobody who asks for a
 * trial says where. Pure.
 */
export function findEndpoints(
  entries: readonly Pick<Entry, 'key' | 'value'>[],
  members: EtcdMemberLists,
): { readonly doors: readonly Endpoint[]; readonly away: readonly string[] } {
  const nodes = membersOf(entries);
  const doors = nodes.flatMap(({ record, address, isBeating }): readonly Endpoint[] => {
    if (!isBeating || address === undefined) return [];
    const { name: node, roles } = record;
    const memberOf = (all: readonly Member[]) => all.find(({ name }) => name === record.nodeId);
    return [
      ...doorsOf(memberOf(members.kubernetes), { client: 'etcd-client', peer: 'etcd-peer' }, node),
      ...doorsOf(memberOf(members.state), { client: 'state-etcd-client', peer: 'state-etcd-peer' }, node),
      ...(roles.includes('KubernetesController')
        ? [{ kind: 'api-server', node, host: address, port: API_PORT } as const]
        : []),
      { kind: 'kubelet', node, host: address, port: KUBELET_PORT },
      ...(roles.includes('ConsensusMember')
        ? [{ kind: 'curator', node, host: address, port: CURATOR_PORT } as const]
        : []),
    ];
  });
  const away = nodes.filter(({ address, isBeating }) => !isBeating || address === undefined);
  return { doors, away: away.map(({ record }) => record.name) };
}

interface KnownNode {
  readonly record: NodeRecord;
  readonly address: string | undefined;
  readonly isBeating: boolean;
}

function membersOf(entries: readonly Pick<Entry, 'key' | 'value'>[]): readonly KnownNode[] {
  const at = new Map(entries.map(({ key, value }) => [key, value]));
  return entries.flatMap(({ key, value }) => {
    if (parseNodeKey(key)?.part !== 'record') return [];
    const record = records.node.decode(key, value);
    if (!isMemberState(record.state)) return [];
    const isBeating = at.has(records.heartbeat.key(record.nodeId));
    return [{ record, isBeating, address: addressOf(at.get(records.status.key(record.nodeId)), record) }];
  });
}

/** As the node itself says; undefined until it has. */
function addressOf(value: Uint8Array | undefined, { nodeId }: NodeRecord): string | undefined {
  if (value === undefined) return undefined;
  const { status } = records.status.decode(records.status.key(nodeId), value);
  const { address } = fromBinary(NodeStatusSchema, Buffer.from(status, 'base64'));
  return address === '' ? undefined : address;
}

function doorsOf(
  member: Member | undefined,
  kinds: { readonly client: EndpointKind; readonly peer: EndpointKind },
  node: string,
): readonly Endpoint[] {
  const at = (kind: EndpointKind, urls: readonly string[]): readonly Endpoint[] =>
    urls.map((url) => {
      const { hostname, port } = new URL(url);
      return { kind, node, host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) };
    });
  return member === undefined
    ? []
    : [...at(kinds.client, member.clientUrls), ...at(kinds.peer, member.peerUrls)];
}

/** The members of each etcd cluster. */
export interface EtcdMemberLists {
  readonly state: readonly Member[];
  readonly kubernetes: readonly Member[];
}
