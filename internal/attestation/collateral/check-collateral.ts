import { CheckList } from '../check-list.ts';
import type { SnpTrust } from '../snp/index.ts';
import { IntelCollateral, tdxErrors, type TdxTrust } from '../tdx/index.ts';
import {
  buildChain,
  CertificateCache,
  parseCrl,
  verifyAuthorityPath,
  verifyCrl,
  verifyPath,
  X509Error,
  type Certificate,
  type Crl,
} from '../x509/index.ts';
import { collateralFrom, manufacturerOf, parseBundle, type CollateralBundle } from './collateral-bundle.ts';
import { CollateralError } from './errors.ts';
import type { CollateralItem } from './collateral-item.ts';
import { refuseOlderCollateral } from './replacement.ts';

/** The trusted roots of the manufacturers. */
export interface ManufacturerTrust {
  readonly amd: SnpTrust;
  readonly intel: TdxTrust;
}

/** Inputs of `checkCollateral()`. */
export interface CollateralCheckOptions {
  readonly trust: ManufacturerTrust;
  readonly nowMs: number;
  readonly seenEvaluationNumber: number;
  /** The documents that are replaced; empty if there were none. */
  readonly previous: readonly CollateralItem[];
}

/**
 * Verifies new documents before they replace older ones. Each must be signed by its manufacturer, current and not revoked,
 * and not older than the document that it replaces. Returns the evaluation number to remember. Throws the error of the
 * first check that fails.
 */
export function checkCollateral(items: readonly CollateralItem[], options: CollateralCheckOptions): number {
  const { trust, nowMs, seenEvaluationNumber, previous: before } = options;
  const cache = new CertificateCache();
  checkCertificatesAndLists(items, { trust, cache, nowMs });
  const evaluationNumber = checkIntelDocuments(items, { trust, cache, nowMs, seenEvaluationNumber });
  refuseOlderCollateral(items, before);
  return evaluationNumber;
}

/** A bundle that passed every check, and the highest evaluation number that was ever used with it or before it. */
export interface VerifiedBundle {
  readonly bundle: CollateralBundle;
  readonly evaluationNumber: number;
}

/** Parses and verifies an encoded bundle that is to replace `previous`. @throws the refusal of the check */
export function verifyBundle(
  encoded: Uint8Array,
  options: Pick<CollateralCheckOptions, 'trust' | 'nowMs'> & { readonly previous: VerifiedBundle },
): VerifiedBundle {
  const { evaluationNumber: seen, bundle: previous } = options.previous;
  const bundle = parseBundle(encoded);
  const number = checkCollateral(bundle.items, {
    ...options,
    seenEvaluationNumber: seen,
    previous: previous.items,
  });
  return { bundle, evaluationNumber: Math.max(seen, number) };
}

function checkIntelDocuments(
  items: readonly CollateralItem[],
  options: Omit<CollateralCheckOptions, 'previous'> & { readonly cache: CertificateCache },
): number {
  const { trust, cache, nowMs, seenEvaluationNumber } = options;
  const { tdx } = collateralFrom(items);
  if (tdx.tcbInfos.length + tdx.qeIdentities.length === 0) return seenEvaluationNumber;
  return new IntelCollateral({ ...tdx, seenEvaluationNumber }, cache).evaluationNumber({
    cache,
    isPinned: (root) => trust.intel.roots.has(root.fingerprint),
    nowMs,
    checks: new CheckList(tdxErrors, 'checking collateral of Intel'),
  });
}

/** More CAs than a manufacturer has; limits the cost of building chains. */
const MAX_AUTHORITIES = 64;

interface Maker {
  readonly isPinned: (root: Certificate) => boolean;
  readonly authorities: readonly Certificate[];
  readonly cache: CertificateCache;
  readonly nowMs: number;
}

type Checking = Pick<CollateralCheckOptions, 'trust' | 'nowMs'> & { readonly cache: CertificateCache };

/** Each certificate and CRL must lead to a root of its manufacturer. */
function checkCertificatesAndLists(items: readonly CollateralItem[], checking: Checking): void {
  const makers = makersOf(items, checking);
  for (const item of items) {
    if (!('der' in item)) continue;
    const name = manufacturerOf(item);
    if (name === undefined) throw malformed(`checking a ${item.kind}: not issued by AMD or Intel`);
    if (item.kind === 'crl') checkCrl(parseCrl(item.der), makers[name]);
    else checkCertificate(checking.cache.parse(item.der), makers[name]);
  }
}

function makersOf(
  items: readonly CollateralItem[],
  { trust, cache, nowMs }: Checking,
): Record<'amd' | 'intel', Maker> {
  const { snp, tdx } = collateralFrom(items);
  const maker = (roots: Pick<ReadonlySet<string>, 'has'>, ders: readonly Uint8Array[]): Maker => {
    const authorities = ders.map((der) => cache.parse(der)).filter(({ isCa }) => isCa);
    if (authorities.length > MAX_AUTHORITIES)
      throw malformed(`checking collateral: ${authorities.length} authorities of one manufacturer`);
    return { isPinned: (root) => roots.has(root.fingerprint), authorities, cache, nowMs };
  };
  return {
    amd: maker(trust.amd.roots, [...snp.certificates, ...trust.amd.authorities]),
    intel: maker(trust.intel.roots, tdx.certificates),
  };
}

function checkCertificate(certificate: Certificate, maker: Maker): void {
  const { authorities, isPinned, cache, nowMs } = maker;
  const chain = buildChain(certificate, authorities, cache);
  const verify = certificate.isCa ? verifyAuthorityPath : verifyPath;
  verify({ chain, isPinned, atMs: nowMs, cache });
}

/** Several CAs may have the name of the issuer; one of them must have issued the CRL. */
function checkCrl(crl: Crl, maker: Maker): void {
  const refusals: X509Error[] = [];
  const named = maker.authorities.filter(({ subject }) => Buffer.compare(subject.der, crl.issuer.der) === 0);
  for (const issuer of named) {
    try {
      checkCertificate(issuer, maker);
      return verifyCrl(crl, issuer, maker.nowMs);
    } catch (error) {
      if (!(error instanceof X509Error)) throw error;
      refusals.push(error);
    }
  }
  throw (
    refusals[0] ??
    new X509Error('x509-crl-issuer', 'checking a CRL: the certificate of its issuer is missing')
  );
}

function malformed(message: string): CollateralError {
  return new CollateralError('collateral-malformed', message);
}
