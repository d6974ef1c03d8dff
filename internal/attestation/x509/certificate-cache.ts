import { ParsedCache } from '../parsed-cache.ts';
import { parseCertificate, type Certificate } from './certificate.ts';

/**
 * A bounded LRU cache of parsed certificates, by the hash of their bytes, and of verified signatures between them. Parsing a
 * certificate costs four times as much as verifying an ECDSA signature, and all machines of a fleet send the same intermediate
 * certificates. Dates, revocation and roles are checked each time.
 */
export class CertificateCache extends ParsedCache<Certificate> {
  readonly #issuers = new WeakMap<Certificate, WeakSet<Certificate>>();

  constructor(maxCertificates = 256) {
    super(maxCertificates, (der) => parseCertificate(Uint8Array.from(der)));
  }

  /** Whether the signature of `issuer` over `certificate` was verified. */
  isVerified(certificate: Certificate, issuer: Certificate): boolean {
    return this.#issuers.get(certificate)?.has(issuer) ?? false;
  }

  /** Records that the signature of `issuer` over `certificate` was verified. */
  setVerified(certificate: Certificate, issuer: Certificate): void {
    const issuers = this.#issuers.get(certificate) ?? new WeakSet();
    this.#issuers.set(certificate, issuers.add(issuer));
  }
}
