import { createHash } from 'node:crypto';
import { parseJson } from '../bytes.ts';
import type { SignedJson } from '../tdx/rules.ts';
import { describeName, parseCertificate, parseCrl } from '../x509/index.ts';

/**
 * A document that a manufacturer signed. Being in a bundle does not make it trusted: validators verify each document.
 */
export type CollateralItem =
  | { readonly kind: 'certificate' | 'crl'; readonly der: Uint8Array }
  | ({ readonly kind: 'tcb-info' | 'qe-identity' } & SignedJson);

/** The subject of a document, and its validity according to its own dates. */
export interface CollateralIssue {
  /** Name of the document in tables and messages. */
  readonly what: string;
  /** Equal for all documents that replace one another. Undefined for certificates, which only expiry or a CRL ends. */
  readonly subject: string | undefined;
  readonly issuedMs: number;
  readonly expiresMs: number;
}

/** Age of a document, by its own dates. */
export interface CollateralAge extends Omit<CollateralIssue, 'subject'> {
  readonly state: 'current' | 'expired' | 'future';
  readonly ageDays: number;
}

const DAY_MS = 86_400_000;

/** Removes duplicate documents. */
export function withoutDuplicates(items: readonly CollateralItem[]): readonly CollateralItem[] {
  return [...new Map(items.map((item) => [identityOf(item), item])).values()];
}

function identityOf(item: CollateralItem): string {
  const hash = createHash('sha256').update(item.kind);
  const content = 'der' in item ? [item.der] : [item.text, item.signature];
  for (const part of content) hash.update(part);
  return hash.digest('hex');
}

/** The age of a document, for the table that operators see. Validators check the dates themselves. */
export function ageOf(item: CollateralItem, nowMs: number): CollateralAge {
  const { what, issuedMs, expiresMs } = issueOf(item);
  const state = nowMs < issuedMs ? 'future' : nowMs > expiresMs ? 'expired' : 'current';
  return { what, issuedMs, expiresMs, state, ageDays: Math.floor((nowMs - issuedMs) / DAY_MS) };
}

/** Reads the subject and dates of a document. Does not verify them. Throws X509Error for malformed DER. */
export function issueOf(item: CollateralItem): CollateralIssue {
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
