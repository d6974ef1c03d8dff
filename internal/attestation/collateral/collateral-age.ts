import { describeName, parseCertificate, parseCrl } from '../x509/index.ts';
import { parseJson } from './collateral-bundle.ts';
import type { CollateralItem } from './collateral-item.ts';

/** Age of a document, by its own dates. */
export interface CollateralAge {
  readonly what: string;
  readonly issuedMs: number;
  readonly expiresMs: number;
  readonly state: 'current' | 'expired' | 'future';
  readonly ageDays: number;
}

const DAY_MS = 86_400_000;

/** The age of a document, for the table that operators see. Validators check the dates themselves. */
export function ageOf(item: CollateralItem, nowMs: number): CollateralAge {
  const { what, issuedMs, expiresMs } = datesOf(item);
  const state = nowMs < issuedMs ? 'future' : nowMs > expiresMs ? 'expired' : 'current';
  return { what, issuedMs, expiresMs, state, ageDays: Math.floor((nowMs - issuedMs) / DAY_MS) };
}

function datesOf(item: CollateralItem): Pick<CollateralAge, 'what' | 'issuedMs' | 'expiresMs'> {
  if (!('der' in item)) return datesOfText(item);
  if (item.kind === 'certificate') {
    const { subject, notBeforeMs, notAfterMs } = parseCertificate(item.der);
    return { what: `certificate of ${describeName(subject)}`, issuedMs: notBeforeMs, expiresMs: notAfterMs };
  }
  const { issuer, thisUpdateMs, nextUpdateMs } = parseCrl(item.der);
  return { what: `CRL of ${describeName(issuer)}`, issuedMs: thisUpdateMs, expiresMs: nextUpdateMs };
}

function datesOfText(
  item: Extract<CollateralItem, { readonly text: string }>,
): Pick<CollateralAge, 'what' | 'issuedMs' | 'expiresMs'> {
  const document = parseJson(item.text) as Partial<Record<string, unknown>> | undefined;
  const dateOf = (key: string): number => Date.parse(String(document?.[key]));
  const what = item.kind === 'tcb-info' ? `TCB info ${String(document?.['fmspc'])}` : 'QE identity';
  return { what, issuedMs: dateOf('issueDate'), expiresMs: dateOf('nextUpdate') };
}
