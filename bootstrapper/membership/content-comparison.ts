import { isControlPlane } from '../../internal/role/index.ts';
import type { MemberOnRecord } from './members-on-record.ts';

/** The last time of a `Date`. A node reports any number. */
const MAX_DATE_MS = 8_640_000_000_000_000n;

/** A comparison of the members of one etcd cluster, which are named by the IDs of their nodes. */
interface ContentComparison {
  readonly comparedMs: bigint;
  /** The members with the content of the majority; empty without one. */
  readonly agreeing: readonly string[];
  /** The others; without a majority all that were compared. */
  readonly differing: readonly string[];
}

/**
 * The newest comparison of the members of an etcd cluster; undefined before the first one. The control planes have theirs
 * on record, and only the one whose member is the leader compares. Pure.
 */
export function newestComparison(
  etcd: 'state' | 'kubernetes',
  members: readonly MemberOnRecord[],
): ContentComparison | undefined {
  return members
    .filter(({ roles }) => isControlPlane(roles)) // a worker has nothing to compare
    .flatMap(({ status }) => status?.etcdContents?.[etcd] ?? [])
    .filter(({ comparedMs }) => comparedMs > 0n && comparedMs <= MAX_DATE_MS)
    .toSorted((a, b) => Number(b.comparedMs - a.comparedMs))[0];
}
