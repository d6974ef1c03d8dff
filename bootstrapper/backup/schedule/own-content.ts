import { ETCD_NAMES, type EtcdName } from '../../consensus/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import type { MemberOnRecord } from '../../membership/index.ts';

/**
 * The etcd whose member on this node was found to differ from the others at the newest comparison; undefined if there is none. Without a
 * majority every member differs. The curators have the comparisons of all control planes on record, and only the one whose
 * member is the leader makes them. Pure.
 */
export function differingEtcd(nodeId: string, members: readonly MemberOnRecord[]): EtcdName | undefined {
  return ETCD_NAMES.find((name) => {
    const [newest] = members
      .filter(({ roles }) => isControlPlane(roles)) // a worker has nothing to compare
      .flatMap(({ status }) => status?.etcdContents?.[name] ?? [])
      .toSorted((a, b) => Number(b.comparedMs - a.comparedMs));
    return newest?.differing.includes(nodeId) === true;
  });
}
