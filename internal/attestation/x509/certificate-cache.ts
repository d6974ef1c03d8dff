import { createHash } from 'node:crypto';
import { parseCertificate, type Certificate } from './certificate.ts';

/**
 * Remembers certificates by the hash of their bytes, and which of them was found to be signed by which other one.
 * Reading a certificate and its key costs four times what verifying an ECDSA signature does, and every machine of a
 * fleet brings the same intermediates. Only these two facts, true for ever, are kept: dates, revocation and roles are
 * checked each time. Bounded; the one not used for longest goes first, and its verified pairs with it.
 */
export class CertificateCache {
  readonly #max: number;
  readonly #byHash = new Map<string, Certificate>();
  readonly #issuers = new WeakMap<Certificate, WeakSet<Certificate>>();

  constructor(maxCertificates = 256) {
    this.#max = maxCertificates;
  }

  /** Like `parseCertificate`; the same bytes give the same object. */
  parse(der: Uint8Array): Certificate {
    const hash = createHash('sha256').update(der).digest('hex');
    const certificate = this.#byHash.get(hash) ?? parseCertificate(Uint8Array.from(der));
    this.#byHash.delete(hash);
    this.#byHash.set(hash, certificate);
    const [oldest] = this.#byHash.keys();
    if (this.#byHash.size > this.#max && oldest !== undefined) this.#byHash.delete(oldest);
    return certificate;
  }

  isVerified(certificate: Certificate, issuer: Certificate): boolean {
    return this.#issuers.get(certificate)?.has(issuer) ?? false;
  }

  setVerified(certificate: Certificate, issuer: Certificate): void {
    const issuers = this.#issuers.get(certificate) ?? new WeakSet();
    this.#issuers.set(certificate, issuers.add(issuer));
  }
}
