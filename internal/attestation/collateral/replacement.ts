import { CollateralError } from './errors.ts';
import { issueOf, type CollateralIssue, type CollateralItem } from './collateral-item.ts';

/**
 * Refuses documents that are older than the active ones about the same subject (the CRLs of a CA, the TCB infos of a platform,
 * QE identities). Otherwise an attacker could replay genuine documents from before a revocation. Both lists must have been
 * verified.
 * @throws CollateralError `collateral-older`
 */
export function refuseOlderCollateral(
  items: readonly CollateralItem[],
  before: readonly CollateralItem[],
): void {
  const known = newestIssues(before);
  for (const [subject, { issuedMs }] of newestIssues(items)) {
    const last = known.get(subject);
    if (last === undefined || issuedMs >= last.issuedMs) continue;
    const [offered, kept] = [issuedMs, last.issuedMs].map((ms) => new Date(ms).toISOString());
    const message = `comparing collateral: ${subject} was issued on ${offered}, the active one on ${kept}`;
    throw new CollateralError('collateral-older', message, { details: { subject } });
  }
}

/**
 * Adds to `items` the current CRLs of CAs for which `items` has none, so that omitting a CRL does not undo a revocation.
 */
export function keepCurrentCrls(
  before: readonly CollateralItem[],
  items: readonly CollateralItem[],
  nowMs: number,
): readonly CollateralItem[] {
  const told = newestIssues(items);
  const kept = before.filter((item) => {
    if (item.kind !== 'crl') return false;
    const { subject = '', expiresMs } = issueOf(item);
    return !told.has(subject) && expiresMs >= nowMs;
  });
  return [...items, ...kept];
}

function newestIssues(items: readonly CollateralItem[]): ReadonlyMap<string, CollateralIssue> {
  const newest = new Map<string, CollateralIssue>();
  for (const issue of items.map(issueOf)) {
    if (issue.subject === undefined) continue;
    const known = newest.get(issue.subject);
    if (known === undefined || known.issuedMs < issue.issuedMs) newest.set(issue.subject, issue);
  }
  return newest;
}
