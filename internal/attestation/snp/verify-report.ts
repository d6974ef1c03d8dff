import { CheckList } from '../check-list.ts';
import { refuseOnCertificateError } from '../certificate-refusal.ts';
import {
  checkNotRevoked,
  describeName,
  isEcdsaSignatureValid,
  parseCrl,
  verifyCrl,
  verifyPath,
  type Certificate,
  type CertificateCache,
} from '../x509/index.ts';
import { checkEndorsement, findChain, type SnpChain } from './chain.ts';
import { snpErrors, type SnpErrorCode } from './errors.ts';
import type { SnpEvidence } from './evidence.ts';
import type { SnpProduct } from './product.ts';
import { parseReport, type SnpReport } from './report.ts';
import type { SnpCollateral } from './rules.ts';

/** Trusted roots by the SHA-256 of their certificate, and CA certificates that evidence does not need to include. */
export interface SnpTrust {
  readonly roots: ReadonlyMap<string, SnpProduct>;
  readonly authorities: readonly Uint8Array[];
}

/** Inputs of `verifySnpReport()`. */
export interface SnpVerifyOptions {
  readonly trust: SnpTrust;
  readonly cache: CertificateCache;
  readonly collateral: SnpCollateral;
  readonly nowMs: number;
}

/** A report that an AMD processor signed. Not yet compared with a policy. */
export interface VerifiedSnpReport extends SnpChain {
  readonly report: SnpReport;
  /** Issue date of the newest CRL that was checked; undefined when there was none. */
  readonly crlIssuedMs: number | undefined;
  readonly checks: CheckList<SnpErrorCode>;
}

/**
 * Verifies that an AMD processor signed a report: form, certificate chain to a pinned root, chip and TCB of the certificate,
 * revocation, signature. Cheap checks come first. Throws AttestationError.
 */
export function verifySnpReport(evidence: SnpEvidence, options: SnpVerifyOptions): VerifiedSnpReport {
  const { trust, cache, collateral, nowMs } = options;
  const checks: CheckList<SnpErrorCode> = new CheckList(snpErrors, 'verifying an SNP report');
  const report = parseReport(evidence.report, checks);
  const ders = [...evidence.certificates, ...collateral.certificates, ...trust.authorities];
  const pool = refuseOnCertificateError(checks, 'chain', () => ders.map((der) => cache.parse(der)));
  const found = findChain(report, pool, { checks, cache });
  refuseOnCertificateError(checks, 'chain', () => {
    const isPinned = (root: Certificate): boolean => trust.roots.get(root.fingerprint) === found.product;
    verifyPath({ chain: found.chain, isPinned, atMs: nowMs, cache });
  });
  checks.require('snp-chain', true, {
    actual: found.chain.map((each) => describeName(each.subject)).join(' ← '),
  });
  checkEndorsement(report, found, checks);
  const crlIssuedMs = refuseOnCertificateError(checks, 'revocation', () =>
    checkRevocation(found.chain, collateral, nowMs),
  );
  const [leaf] = found.chain;
  const isSigned =
    leaf !== undefined && isEcdsaSignatureValid(leaf.publicKey, 'sha384', report.signed, report.signature);
  checks.require('snp-signature', isSigned);
  return { ...found, report, crlIssuedMs, checks };
}

/**
 * Checks the CAs against the CRL of the root and returns the issue date of the newest CRL. Chip certificates are not
 * revoked but superseded by a newer TCB (57230, §2.3).
 */
function checkRevocation(
  chain: readonly Certificate[],
  collateral: SnpCollateral,
  nowMs: number,
): number | undefined {
  const root = chain.at(-1);
  if (root === undefined) return undefined;
  const crls = collateral.crls
    .map((der) => parseCrl(der))
    .filter((crl) => Buffer.compare(crl.issuer.der, root.subject.der) === 0);
  for (const crl of crls) {
    verifyCrl(crl, root, nowMs);
    for (const certificate of chain.slice(1)) checkNotRevoked(certificate, crl);
  }
  return crls.length === 0 ? undefined : Math.max(...crls.map((crl) => crl.thisUpdateMs));
}
