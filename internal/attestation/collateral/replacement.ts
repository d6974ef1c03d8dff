import { describeName, parseCrl } from '../x509/index.ts';
import { parseJson } from './collateral-bundle.ts';
import { CollateralError } from './errors.ts';
import type { CollateralItem } from './collateral-item.ts';

/** One of the documents that a manufacturer issued about the same subject. */
interface Issue {
  readonly subject: string;
  readonly issuedMs: number;
  readonly expiresMs: number;
}

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
    const issue = issueOf(item);
    return issue !== undefined && !told.has(issue.subject) && issue.expiresMs >= nowMs;
  });
  return [...items, ...kept];
}

function newestIssues(items: readonly CollateralItem[]): ReadonlyMap<string, Issue> {
  const newest = new Map<string, Issue>();
  for (const item of items) {
    const issue = issueOf(item);
    if (issue === undefined) continue;
    const known = newest.get(issue.subject);
    if (known === undefined || known.issuedMs < issue.issuedMs) newest.set(issue.subject, issue);
  }
  return newest;
}

/** undefined for certificates, which are replaced only through their dates and CRLs. */
function issueOf(item: CollateralItem): Issue | undefined {
  if (!('der' in item)) return issueOfText(item);
  if (item.kind === 'certificate') return undefined;
  const { issuer, thisUpdateMs, nextUpdateMs } = parseCrl(item.der);
  return { subject: `the CRL of ${describeName(issuer)}`, issuedMs: thisUpdateMs, expiresMs: nextUpdateMs };
}

function issueOfText({ kind, text }: Extract<CollateralItem, { readonly text: string }>): Issue {
  const { id, fmspc, issueDate, nextUpdate } = parseJson(text) as Partial<Record<string, unknown>>;
  const platform = kind === 'tcb-info' ? ` ${String(fmspc).toLowerCase()}` : '';
  const [issuedMs = NaN, expiresMs = NaN] = [issueDate, nextUpdate].map((date) => Date.parse(String(date)));
  return { subject: `${kind} ${String(id)}${platform}`, issuedMs, expiresMs };
}
