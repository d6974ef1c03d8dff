import { ETCD_NAMES, type EtcdName } from '../../consensus/index.ts';
import { newestOnRecord, type MemberOnRecord } from '../../membership/index.ts';

/**
 * The etcd whose member on this node was found to differ from the others at the newest comparison; undefined if there is none. Without a
 * majority every member differs. Pure.
 */
export function differingEtcd(nodeId: string, members: readonly MemberOnRecord[]): EtcdName | undefined {
  return ETCD_NAMES.find((name) => newestOnRecord(name, members)?.differing.includes(nodeId) === true);
}
