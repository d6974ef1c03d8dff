/** The last time of a `Date`. A node reports any number. */
const MAX_DATE_MS = 8_640_000_000_000_000;

/** A comparison of the members of one etcd cluster, which are named by the IDs of their nodes. */
export interface ContentComparison {
  /** undefined or 0 before the first comparison. */
  readonly comparedMs?: number | undefined;
  /** The members with the content of the majority; empty without one. */
  readonly agreeing: readonly string[];
  /** The others; without a majority all that were compared. */
  readonly differing: readonly string[];
}

/**
 * The newest of the comparisons that control planes have reported; undefined before the first one. Only the control plane
 * whose member is the leader compares, and the leader changes. Pure.
 */
export function newestComparison<T extends ContentComparison>(
  reports: readonly T[],
): (T & { readonly comparedMs: number }) | undefined {
  return reports
    .map((each) => ({ ...each, comparedMs: each.comparedMs ?? 0 }))
    .filter(({ comparedMs }) => comparedMs > 0 && comparedMs <= MAX_DATE_MS)
    .toSorted((a, b) => b.comparedMs - a.comparedMs)[0];
}
