import { CheckList } from '../check-list.ts';
import type { SnpTrust } from '../snp/index.ts';
import { IntelCollateral, tdxErrors, type TdxTrust } from '../tdx/index.ts';
import { CertificateCache, parseCrl, verifyCrl, X509Error } from '../x509/index.ts';
import { collateralFrom } from './bundle.ts';
import type { CollateralItem } from './item.ts';

/** Whose documents count: the manufacturers' own roots in a release. */
export interface ManufacturerTrust {
  readonly amd: SnpTrust;
  readonly intel: TdxTrust;
}

/**
 * Verifies fresh documents before they take the place of older ones: signed, current, revocable, and no step back behind
 * what was used before. Answers the evaluation number to remember. Throws the refusal of the check.
 */
export function checkCollateral(
  items: readonly CollateralItem[],
  options: {
    readonly trust: ManufacturerTrust;
    readonly nowMs: number;
    readonly seenEvaluationNumber: number;
  },
): number {
  const { trust, nowMs, seenEvaluationNumber } = options;
  const { snp, tdx } = collateralFrom(items);
  const cache = new CertificateCache();
  for (const der of snp?.crls ?? [])
    checkAmdCrl(der, { trust: trust.amd, certificates: snp?.certificates ?? [], cache, nowMs });
  if (tdx === undefined || tdx.tcbInfos.length + tdx.qeIdentities.length === 0) return seenEvaluationNumber;
  return new IntelCollateral({ ...tdx, seenEvaluationNumber }, cache).evaluationNumber({
    cache,
    isPinned: (root) => trust.intel.roots.has(root.fingerprint),
    nowMs,
    checks: new CheckList(tdxErrors, 'checking collateral of Intel'),
  });
}

function checkAmdCrl(
  der: Uint8Array,
  what: {
    readonly trust: SnpTrust;
    readonly certificates: readonly Uint8Array[];
    readonly cache: CertificateCache;
    readonly nowMs: number;
  },
): void {
  const { trust, certificates, cache, nowMs } = what;
  const crl = parseCrl(der);
  // KDS gives the CRL of the root (ARK) alone, and the root is pinned: no chain leads to it.
  const issuer = [...trust.authorities, ...certificates]
    .map((each) => cache.parse(each))
    .find((each) => trust.roots.has(each.fingerprint) && equal(each.subject.der, crl.issuer.der));
  if (issuer === undefined)
    throw new X509Error('x509-crl-issuer', 'checking a CRL of AMD: no root of AMD issued it');
  verifyCrl(crl, issuer, nowMs);
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
