import type { KeySpace } from '../../internal/etcd/index.ts';
import { records, type NodeRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';

/** The member whose machine has this identity, if the record of the node agrees; undefined if there is none. */
export async function memberOfIdentity(
  etcd: KeySpace,
  identity: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  const held = (await records.identity.read(etcd, records.identity.key(identity), signal)).record;
  if (held === undefined || held.nodeId === '' || held.nodeId.includes('/')) return undefined;
  const node = (await records.node.read(etcd, records.node.key(held.nodeId), signal)).record;
  const isOfMachine = node?.nodeId === held.nodeId && node.admission?.identity === identity;
  return isOfMachine && isMemberState(node.state) ? node : undefined;
}
