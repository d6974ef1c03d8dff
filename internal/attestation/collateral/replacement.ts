import { describeName, parseCrl } from '../x509/index.ts';
import { parseJson } from './collateral-bundle.ts';
import { CollateralError } from './errors.ts';
import type { CollateralItem } from './collateral-item.ts';

/** One document in the row of those that a manufacturer issued about the same thing. */
interface Issue {
  readonly subject: string;
  readonly issuedMs: number;
  readonly expiresMs: number;
}

/**
 * Whoever can bring documents but not sign them has one way to do harm: genuine ones from before something was revoked.
 * So of each row (the CRLs of an authority, the TCB infos of a platform, QE identities) only a newer one follows, whatever
 * its own dates allow. Both sides must have been verified.
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
    const told = `comparing collateral: ${subject} is of ${offered}, the one in force of ${kept}`;
    throw new CollateralError('collateral-older', told, { details: { subject } });
  }
}

/**
 * What is to be in force: `items`, and the lists of authorities that they say nothing about, as long as those are current.
 * Leaving a list out takes no revocation back.
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

/** Undefined for certificates: they are superseded by nothing but their dates and lists. */
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
