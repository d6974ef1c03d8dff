import { X509Certificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from './certificate-signer.ts';

/** A certificate's time, as far as renewal cares; wall clock. */
export interface CertificateTimes {
  /** When it was made: certificates are back-dated by the clock tolerance. */
  readonly issuedMs: number;
  readonly notAfterMs: number;
}

/** A certificate's validity as renewal takes it: signers back-date by the tolerance for clocks. Pure. */
export function certificateTimesOf(certPem: string): CertificateTimes {
  const { validFrom, validTo } = new X509Certificate(certPem);
  const notAfterMs = Date.parse(validTo);
  return { issuedMs: Math.min(Date.parse(validFrom) + CLOCK_TOLERANCE_MS, notAfterMs), notAfterMs };
}

/** When a certificate is renewed: at two thirds of its life, so that a third is left for what goes wrong. Pure. */
export function renewalTimeOf({ issuedMs: madeMs, notAfterMs }: CertificateTimes): number {
  return madeMs + Math.floor(((notAfterMs - madeMs) * 2) / 3);
}
