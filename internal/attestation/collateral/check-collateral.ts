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
import { refuseOlderCollateral } from './collateral-age.ts';
import {
  collateralFrom,
  manufacturerOf,
  MAX_UPLOAD_BYTES,
  parseBundle,
  VerifiedBundle,
  type CollateralBundle,
  type DerItem,
} from './collateral-bundle.ts';
import { malformed } from './errors.ts';

/** The trusted roots of the manufacturers. */
export interface ManufacturerTrust {
  readonly amd: SnpTrust;
  readonly intel: TdxTrust;
}

/** Each real manufacturer has fewer CAs. Limits the cost of building chains. */
const MAX_AUTHORITIES = 64;

/**
 * Verifies a bundle, encoded or parsed, that is to replace `previous`. Each document must be signed by its manufacturer, current
 * and not revoked, and not older than the document that it replaces. Throws the error of the first check that fails.
 */
export function verifyBundle(
  given: Uint8Array | CollateralBundle,
  {
    trust,
    nowMs,
    previous,
  }: { readonly trust: ManufacturerTrust; readonly nowMs: number; readonly previous: VerifiedBundle },
): VerifiedBundle {
  const bundle = given instanceof Uint8Array ? parseBundle(given, MAX_UPLOAD_BYTES) : given;
  const { snp, tdx } = collateralFrom(bundle.items, previous.evaluationNumber);
  const cache = new CertificateCache();
  const maker = (roots: Pick<ReadonlySet<string>, 'has'>, ders: readonly Uint8Array[]): Maker => {
    const authorities = ders.map((der) => cache.parse(der)).filter(({ isCa }) => isCa);
    if (authorities.length > MAX_AUTHORITIES)
      throw malformed(
        `checking collateral: ${authorities.length} CA certificates of one manufacturer, at most ${MAX_AUTHORITIES} allowed`,
      );
    return { authorities, isPinned: ({ fingerprint }) => roots.has(fingerprint), cache, nowMs };
  };
  const makers = {
    amd: maker(trust.amd.roots, [...snp.certificates, ...trust.amd.authorities]),
    intel: maker(trust.intel.roots, tdx.certificates),
  };
  for (const item of bundle.items) if ('der' in item) checkDerItem(item, makers);
  const checks = new CheckList(tdxErrors, 'checking collateral of Intel');
  const number = new IntelCollateral(tdx, cache).evaluationNumber({ ...makers.intel, checks });
  refuseOlderCollateral(bundle.items, previous.items);
  return new VerifiedBundle(bundle, Math.max(previous.evaluationNumber, number));
}

/** The CA certificates and options with which the documents of one manufacturer are verified. */
interface Maker {
  readonly authorities: readonly Certificate[];
  readonly isPinned: (root: Certificate) => boolean;
  readonly cache: CertificateCache;
  readonly nowMs: number;
}

/** Verifies that a certificate or CRL leads to a root of its manufacturer. */
function checkDerItem(item: DerItem, makers: Readonly<Record<'amd' | 'intel', Maker>>): void {
  const name = manufacturerOf(item);
  if (name === undefined) throw malformed(`checking a ${item.kind}: not issued by AMD or Intel`);
  const maker = makers[name];
  if (item.kind === 'crl') checkCrl(parseCrl(item.der), maker);
  else checkCertificate(maker.cache.parse(item.der), maker);
}

function checkCertificate(certificate: Certificate, { authorities, isPinned, cache, nowMs }: Maker): void {
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
