import { X509Certificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';

/** The two times of a certificate that renewal needs; wall clock. */
export interface CertificateTimes {
  /** When the certificate was issued: its `notBefore` plus the clock tolerance (`CLOCK_TOLERANCE_MS`). */
  readonly issuedMs: number;
  readonly notAfterMs: number;
}

/** The times of a certificate in PEM. */
export function certificateTimesOf(certPem: string): CertificateTimes {
  const { validFrom, validTo } = new X509Certificate(certPem);
  const notAfterMs = Date.parse(validTo);
  return { issuedMs: Math.min(Date.parse(validFrom) + CLOCK_TOLERANCE_MS, notAfterMs), notAfterMs };
}

/** When to renew a certificate: after two thirds of its lifetime, so that a third is left for retries. */
export function renewalTimeOf({ issuedMs, notAfterMs }: CertificateTimes): number {
  return issuedMs + Math.floor(((notAfterMs - issuedMs) * 2) / 3);
}
