import { toHex } from '../bytes.ts';
import { CheckList } from '../check-list.ts';
import { AttestationError } from '../errors.ts';
import type { Claim, DecodedEvidence, Verdict } from '../verdict.ts';
import { parseCertificate, X509Error } from '../x509/index.ts';
import { endorsementKind, parseEndorsement } from './endorsement.ts';
import { snpErrors } from './errors.ts';
import { decodeSnpEvidence } from './evidence.ts';
import { productFromCpuid, productFromName, type SnpProduct } from './product.ts';
import { parseReport, type SnpReport } from './report.ts';
import { describeTcb, parseTcb } from './tcb.ts';

/**
 * Decodes evidence without verifying anything, to show what was refused.
 * @param certificates DER; besides those in the evidence
 * @throws AttestationError for a malformed report
 */
export function describeSnpEvidence(
  evidence: Uint8Array,
  certificates: readonly Uint8Array[],
): DecodedEvidence {
  const decoded = decodeSnpEvidence(evidence);
  const report = parseReport(decoded.report);
  const product = productOf(report, [...decoded.certificates, ...certificates]);
  return {
    measurements: snpMeasurements(report),
    // Reports of version 2 are older than Turin, whose TCB has another layout.
    tcb: { ...parseTcb(report.tcb.reported, product ?? 'Milan') },
    claims: { ...(product && { product }), ...reportClaims(report, product ?? 'Milan') },
  };
}

/** The product, from the report itself or from the first chip certificate that names one. */
function productOf({ cpuid, signingKey }: SnpReport, ders: readonly Uint8Array[]): SnpProduct | undefined {
  if (cpuid !== undefined) return productFromCpuid(cpuid.family, cpuid.model);
  for (const der of ders) {
    const product = productIn(der, signingKey);
    if (product !== undefined) return product;
  }
  return undefined;
}

function productIn(der: Uint8Array, kind: SnpReport['signingKey']): SnpProduct | undefined {
  try {
    const certificate = parseCertificate(der);
    if (endorsementKind(certificate) !== kind) return undefined;
    const checks = new CheckList(snpErrors, 'reading a chip certificate');
    return productFromName(parseEndorsement(certificate, kind, checks).productName);
  } catch (error) {
    if (error instanceof X509Error || error instanceof AttestationError) return undefined;
    throw error;
  }
}

/** SNP has one register, the launch digest. */
export function snpMeasurements(report: SnpReport): Verdict['measurements'] {
  return new Map([['launch', Uint8Array.from(report.measurement)]]);
}

/** The fields of a report, for display and policies. */
export function reportClaims(report: SnpReport, product: SnpProduct): Readonly<Record<string, Claim>> {
  const { guestPolicy, cpuid, firmware } = report;
  const tcb = (name: keyof SnpReport['tcb']): string => describeTcb(parseTcb(report.tcb[name], product));
  return {
    reportVersion: report.version,
    signedBy: report.signingKey,
    ...(cpuid === undefined
      ? {}
      : { cpuid: `family ${cpuid.family}, model ${cpuid.model}, stepping ${cpuid.stepping}` }),
    chipId: toHex(report.chipId),
    vmpl: report.vmpl,
    guestSvn: report.guestSvn,
    guestAbi: guestPolicy.abi,
    debug: guestPolicy.debug,
    migrationAgent: guestPolicy.migrationAgent,
    smt: guestPolicy.smt,
    singleSocket: guestPolicy.singleSocket,
    platformInfo: `0x${report.platformInfo.toString(16)}`,
    firmware: firmware.current,
    firmwareCommitted: firmware.committed,
    tcbCurrent: tcb('current'),
    tcbReported: tcb('reported'),
    tcbCommitted: tcb('committed'),
    tcbLaunch: tcb('launch'),
    reportData: toHex(report.reportData),
    hostData: toHex(report.hostData),
    familyId: toHex(report.familyId),
    imageId: toHex(report.imageId),
    idKeyDigest: toHex(report.idKeyDigest),
    authorKeyDigest: toHex(report.authorKeyDigest),
    authorKeyEnabled: report.authorKeyEnabled,
  };
}
