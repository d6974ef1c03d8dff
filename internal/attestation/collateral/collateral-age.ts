import { wholeDays } from '../../clock/index.ts';
import { parseJson } from '../bytes.ts';
import { describeName, parseCertificate, parseCrl } from '../x509/index.ts';
import { VerifiedBundle, type CollateralItem } from './collateral-bundle.ts';
import { CollateralError } from './errors.ts';

/** The subject of a document, and its validity according to its own dates. */
interface CollateralIssue {
  /** Name of the document in tables and messages. */
  readonly what: string;
  /**
   * Equal for all documents that replace one another. Undefined for certificates: a newer certificate does not replace
   * an older one.
   */
  readonly subject: string | undefined;
  readonly issuedMs: number;
  readonly expiresMs: number;
}

/** Age of a document, by its own dates. */
export interface CollateralAge extends Omit<CollateralIssue, 'subject'> {
  readonly state: 'current' | 'expired' | 'future';
  readonly ageDays: number;
}

/** The age of a document, for the table that operators see. Validators check the dates themselves. */
export function ageOf(item: CollateralItem, nowMs: number): CollateralAge {
  const { what, issuedMs, expiresMs } = issueOf(item);
  const state = nowMs < issuedMs ? 'future' : nowMs > expiresMs ? 'expired' : 'current';
  return { what, issuedMs, expiresMs, state, ageDays: wholeDays(nowMs - issuedMs) };
}

/** Reads the subject and dates of a document. Does not verify them. Throws X509Error for malformed DER. */
function issueOf(item: CollateralItem): CollateralIssue {
  if (!('der' in item)) {
    const document = parseJson(item.text) as Partial<Record<string, unknown>> | undefined;
    const [id, fmspc] = [String(document?.['id']), String(document?.['fmspc'])];
    const dateOf = (key: string): number => Date.parse(String(document?.[key]));
    const dates = { issuedMs: dateOf('issueDate'), expiresMs: dateOf('nextUpdate') };
    return item.kind === 'tcb-info'
      ? { what: `TCB info ${fmspc}`, subject: `${item.kind} ${id} ${fmspc.toLowerCase()}`, ...dates }
      : { what: 'QE identity', subject: `${item.kind} ${id}`, ...dates };
  }
  if (item.kind === 'crl') {
    const { issuer, thisUpdateMs: issuedMs, nextUpdateMs: expiresMs } = parseCrl(item.der);
    const what = `CRL of ${describeName(issuer)}`;
    return { what, subject: `the ${what}`, issuedMs, expiresMs };
  }
  const { subject, notBeforeMs: issuedMs, notAfterMs: expiresMs } = parseCertificate(item.der);
  return { what: `certificate of ${describeName(subject)}`, subject: undefined, issuedMs, expiresMs };
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
 * For each CA without a CRL in `next`, adds the CRL from `before` if the CRL is still current. So a bundle that omits a
 * CRL does not undo a revocation.
 */
export function keepCurrentCrls(before: VerifiedBundle, next: VerifiedBundle, nowMs: number): VerifiedBundle {
  const told = newestIssues(next.items);
  const kept = before.items.filter((item) => {
    if (item.kind !== 'crl') return false;
    const { subject = '', expiresMs } = issueOf(item);
    return !told.has(subject) && expiresMs >= nowMs;
  });
  return new VerifiedBundle({ ...next, items: [...next.items, ...kept] }, next.evaluationNumber);
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
