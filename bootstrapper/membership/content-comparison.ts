import { newestComparison, type ContentComparison } from '../../internal/doctor/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import type { MemberOnRecord } from './members-on-record.ts';

/** The newest comparison of the members of an etcd cluster that is on record; undefined before the first one. Pure. */
export function newestOnRecord(
  etcd: 'state' | 'kubernetes',
  members: readonly MemberOnRecord[],
): (ContentComparison & { readonly comparedMs: number }) | undefined {
  return newestComparison(
    members
      .filter(({ roles }) => isControlPlane(roles)) // a worker has nothing to compare
      .flatMap(({ status }) => status?.etcdContents?.[etcd] ?? [])
      .map(({ comparedMs, agreeing, differing }) => ({
        ...{ comparedMs: Number(comparedMs), agreeing, differing },
      })),
  );
}
