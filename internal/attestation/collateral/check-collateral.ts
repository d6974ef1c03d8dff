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
import { malformed } from './errors.ts';
import type { CollateralItem } from './collateral-item.ts';
import { refuseOlderCollateral } from './replacement.ts';

/** The trusted roots of the manufacturers. */
export interface ManufacturerTrust {
  readonly amd: SnpTrust;
  readonly intel: TdxTrust;
}

/** A bundle that passed every check. */
export interface VerifiedBundle extends CollateralBundle {
  /** The highest tcbEvaluationDataNumber of Intel in this bundle and all bundles before it. */
  readonly evaluationNumber: number;
}

/** Stands for the previous bundle if there was none. */
export const NO_COLLATERAL: VerifiedBundle = { assembledMs: 0, items: [], evaluationNumber: 0 };

/** Every manufacturer has fewer CAs. Limits the cost of building chains. */
const MAX_AUTHORITIES = 64;

/**
 * Verifies a bundle, encoded or parsed, that is to replace `previous`. Each document must be signed by its manufacturer, current
 * and not revoked, and not older than the document that it replaces. Throws the error of the first check that fails.
 */
export function verifyBundle(
  given: Uint8Array | CollateralBundle,
  options: {
    readonly trust: ManufacturerTrust;
    readonly nowMs: number;
    readonly previous: VerifiedBundle;
  },
): VerifiedBundle {
  const { trust, nowMs, previous } = options;
  const bundle = given instanceof Uint8Array ? parseBundle(given) : given;
  const checking = { cache: new CertificateCache(), nowMs };
  checkCertificatesAndLists(bundle.items, trust, checking);
  const seen = previous.evaluationNumber;
  const number = checkIntelDocuments(bundle.items, { ...checking, roots: trust.intel.roots, seen });
  refuseOlderCollateral(bundle.items, previous.items);
  return { ...bundle, evaluationNumber: Math.max(seen, number) };
}

interface Checking {
  readonly cache: CertificateCache;
  readonly nowMs: number;
}

/** Verifies TCB infos and QE identities and returns their evaluation number; `seen` if there are no such documents. */
function checkIntelDocuments(
  items: readonly CollateralItem[],
  { cache, nowMs, roots, seen }: Checking & { readonly roots: Roots; readonly seen: number },
): number {
  const { tdx } = collateralFrom(items, seen);
  if (tdx.tcbInfos.length + tdx.qeIdentities.length === 0) return seen;
  return new IntelCollateral(tdx, cache).evaluationNumber({
    cache,
    isPinned: (root) => roots.has(root.fingerprint),
    nowMs,
    checks: new CheckList(tdxErrors, 'checking collateral of Intel'),
  });
}

type Roots = Pick<ReadonlySet<string>, 'has'>;

/** A manufacturer, and what its documents are verified with. */
interface Maker extends Checking {
  readonly roots: Roots;
  readonly authorities: readonly Certificate[];
}

/** Verifies that each certificate and CRL leads to a root of its manufacturer. */
function checkCertificatesAndLists(
  items: readonly CollateralItem[],
  { amd, intel }: ManufacturerTrust,
  checking: Checking,
): void {
  const { snp, tdx } = collateralFrom(items);
  const maker = ({ roots }: { readonly roots: Roots }, ders: readonly Uint8Array[]): Maker => {
    const authorities = ders.map((der) => checking.cache.parse(der)).filter(({ isCa }) => isCa);
    if (authorities.length > MAX_AUTHORITIES)
      throw malformed(`checking collateral: ${authorities.length} authorities of one manufacturer`);
    return { ...checking, roots, authorities };
  };
  const makers = {
    amd: maker(amd, [...snp.certificates, ...amd.authorities]),
    intel: maker(intel, tdx.certificates),
  };
  for (const item of items) {
    if (!('der' in item)) continue;
    const name = manufacturerOf(item);
    if (name === undefined) throw malformed(`checking a ${item.kind}: not issued by AMD or Intel`);
    if (item.kind === 'crl') checkCrl(parseCrl(item.der), makers[name]);
    else checkCertificate(checking.cache.parse(item.der), makers[name]);
  }
}

function checkCertificate(certificate: Certificate, { authorities, roots, cache, nowMs }: Maker): void {
  const chain = buildChain(certificate, authorities, cache);
  const verify = certificate.isCa ? verifyAuthorityPath : verifyPath;
  verify({ chain, isPinned: (root) => roots.has(root.fingerprint), atMs: nowMs, cache });
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
