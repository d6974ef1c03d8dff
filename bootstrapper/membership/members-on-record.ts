import { fromBinary } from '@bufbuild/protobuf';
import type { Entry } from '../../internal/etcd/index.ts';
import { parseNodeKey, records, type NodeRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { NodeStatusSchema, type NodeStatus } from '../../joinservice/curatorproto/gen/curator_pb.js';

/** A member of the cluster, as the records of the cluster describe it. */
export interface MemberOnRecord extends NodeRecord {
  /** Whether the member has a heartbeat. */
  readonly isAlive: boolean;
  /** The status that the member reported last; undefined before its first report. */
  readonly status: NodeStatus | undefined;
}

/** Selects the members from the records below `NODES_PREFIX`. Pure. @throws RecordError `records-invalid` */
export function membersOnRecord(entries: readonly Pick<Entry, 'key' | 'value'>[]): readonly MemberOnRecord[] {
  const values = new Map(entries.map(({ key, value }) => [key, value]));
  return entries
    .filter(({ key }) => parseNodeKey(key)?.part === 'record')
    .map(({ key, value }) => records.node.decode(key, value))
    .filter(({ state }) => isMemberState(state))
    .map((record) => {
      const statusKey = records.status.key(record.nodeId);
      const status = values.get(statusKey);
      return {
        ...record,
        isAlive: values.has(records.heartbeat.key(record.nodeId)),
        status: status && statusFrom(records.status.decode(statusKey, status)),
      };
    });
}

function statusFrom({ status }: { readonly status: string }): NodeStatus {
  return fromBinary(NodeStatusSchema, Buffer.from(status, 'base64'));
}
