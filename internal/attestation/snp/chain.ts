import { equalBytes, isZero, toHex } from '../bytes.ts';
import type { CheckList } from '../check-list.ts';
import {
  attributeOf,
  buildChain,
  COMMON_NAME,
  type Certificate,
  type CertificateCache,
} from '../x509/index.ts';
import { endorsementKind, parseEndorsement, type SnpEndorsement } from './endorsement.ts';
import type { SnpErrorCode } from './errors.ts';
import { productFromCpuid, productFromName, type SnpProduct } from './product.ts';
import type { SnpReport } from './report.ts';
import { describeTcb, isSameTcb, parseTcb } from './tcb.ts';

/** The chip certificate of a report, its content and its issuers. Not yet verified. */
export interface SnpChain {
  readonly product: SnpProduct;
  readonly endorsement: SnpEndorsement;
  /** Chip, authority (ASK or ASVK), root (ARK). */
  readonly chain: readonly Certificate[];
}

type Checks = CheckList<SnpErrorCode>;

/** Finds the certificate chain of a report among the available certificates and checks that they match each other. */
export function findChain(
  report: SnpReport,
  pool: readonly Certificate[],
  { checks, cache }: { readonly checks: Checks; readonly cache: CertificateCache },
): SnpChain {
  const leaf = selectLeaf(report, pool, checks);
  const endorsement = parseEndorsement(leaf, report.signingKey, checks);
  checks.require('snp-certificate-key', leaf.publicKey.kind === 'p384', {
    expected: 'p384',
    actual: leaf.publicKey.kind,
  });
  const product = productOf(report, endorsement, checks);
  const chain = buildChain(leaf, pool, cache);
  checks.require('snp-certificate-missing', chain.length > 1, {
    subject: 'issuer',
    problem: 'no certificate of the chip’s issuer',
  });
  checkAuthority(chain, product, { kind: endorsement.kind, checks });
  return { product, endorsement, chain };
}

/** Checks that report and chip certificate are for the same chip and the same firmware. */
export function checkEndorsement(
  report: SnpReport,
  { endorsement, product }: SnpChain,
  checks: Checks,
): void {
  if (endorsement.hardwareId !== undefined) checkChip(report, endorsement.hardwareId, checks);
  const reported = parseTcb(report.tcb.reported, product);
  checks.require('snp-tcb-mismatch', isSameTcb(reported, endorsement.tcb), {
    expected: describeTcb(endorsement.tcb),
    actual: describeTcb(reported),
  });
}

/**
 * Returns the certificate for this chip and TCB. If there is none, returns any certificate of the right kind, so that a
 * later check names the difference.
 */
function selectLeaf(report: SnpReport, pool: readonly Certificate[], checks: Checks): Certificate {
  const leaves = pool.filter((each) => endorsementKind(each) !== undefined);
  checks.require('snp-certificate-missing', leaves.length > 0, {
    subject: 'chip',
    problem: 'no chip certificate',
  });
  const rightKind = leaves.filter((each) => endorsementKind(each) === report.signingKey);
  const [first, ...others] = rightKind;
  if (first === undefined) {
    const actual = leaves[0] && endorsementKind(leaves[0]);
    throw checks.refusal('snp-certificate-kind', { expected: report.signingKey, ...(actual && { actual }) });
  }
  checks.require('snp-certificate-kind', true, { expected: report.signingKey, actual: report.signingKey });
  if (others.length === 0) return first;
  const isMatching = (each: Certificate, at: number): boolean =>
    isForReport(parseEndorsement(each, report.signingKey, checks, `candidate-${at + 1}`), report);
  return rightKind.find(isMatching) ?? first;
}

function isForReport(endorsement: SnpEndorsement, report: SnpReport): boolean {
  const product = productFromName(endorsement.productName);
  const isTcb = product !== undefined && isSameTcb(parseTcb(report.tcb.reported, product), endorsement.tcb);
  return isTcb && (endorsement.hardwareId === undefined || isChip(report, endorsement.hardwareId));
}

/**
 * Since version 3 the report itself names the processor. The name in the certificate is then ignored, because AMD has
 * issued certificates with a wrong name. In both cases the chain must end in the pinned root of the product.
 */
function productOf(report: SnpReport, endorsement: SnpEndorsement, checks: Checks): SnpProduct {
  const { cpuid } = report;
  const product = cpuid
    ? productFromCpuid(cpuid.family, cpuid.model)
    : productFromName(endorsement.productName);
  const actual = cpuid
    ? `family 0x${cpuid.family.toString(16)}, model 0x${cpuid.model.toString(16)}`
    : endorsement.productName;
  checks.require('snp-product-unknown', product !== undefined, { actual });
  return product as SnpProduct;
}

/** AMD names its CAs by product and kind: SEV-Milan issues VCEKs, SEV-VLEK-Milan issues VLEKs. */
function checkAuthority(
  chain: readonly Certificate[],
  product: SnpProduct,
  { kind, checks }: { readonly kind: SnpEndorsement['kind']; readonly checks: Checks },
): void {
  const names = chain.slice(1).map((each) => attributeOf(each.subject, COMMON_NAME) ?? '');
  const [authority = '', root = ''] = names;
  checks.require('snp-product-mismatch', authority.endsWith(`-${product}`), {
    expected: product,
    actual: authority,
  });
  const expected = [kind === 'vcek' ? `SEV-${product}` : `SEV-VLEK-${product}`, `ARK-${product}`];
  checks.require(
    'snp-certificate-issuer',
    names.length === 2 && authority === expected[0] && root === expected[1],
    {
      expected: expected.join(', '),
      actual: names.join(', '),
    },
  );
}

function checkChip(report: SnpReport, hardwareId: Uint8Array, checks: Checks): void {
  checks.require('snp-chip-masked', !report.maskChipKey && !isZero(report.chipId));
  checks.require('snp-chip-mismatch', isChip(report, hardwareId), {
    expected: toHex(hardwareId),
    actual: toHex(report.chipId),
  });
}

/** The id of a Turin chip has 8 bytes; the field of the report is padded with zeros. */
function isChip(report: SnpReport, hardwareId: Uint8Array): boolean {
  const { length } = hardwareId;
  return equalBytes(report.chipId.subarray(0, length), hardwareId) && isZero(report.chipId.subarray(length));
}
