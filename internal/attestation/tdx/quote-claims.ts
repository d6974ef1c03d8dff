import { toHex } from '../bytes.ts';
import { CheckList } from '../check-list.ts';
import { AttestationError } from '../errors.ts';
import type { Claim, DecodedEvidence, Verdict } from '../verdict.ts';
import { parseCertificate, parsePem, X509Error } from '../x509/index.ts';
import { tdxErrors } from './errors.ts';
import { decodeTdxEvidence } from './evidence.ts';
import { parsePlatform, type PckPlatform } from './pck.ts';
import { parseQuote, type TdxQuote } from './quote.ts';
import type { TdReport } from './report.ts';

/**
 * Decodes evidence without verifying anything, to show what was refused.
 * @throws AttestationError for a malformed quote
 */
export function describeTdxEvidence(evidence: Uint8Array): DecodedEvidence {
  const quote = parseQuote(decodeTdxEvidence(evidence).quote);
  const platform = platformIn(quote);
  return {
    measurements: tdxMeasurements(quote.report),
    tcb: { teeTcbSvn: toHex(quote.report.teeTcbSvn), ...(platform && platformTcb(platform)) },
    claims: {
      ...(platform?.platformInstanceId && { platform: toHex(platform.platformInstanceId) }),
      ...(platform && { ppid: toHex(platform.ppid) }),
      ...quoteClaims(quote),
    },
  };
}

/** The platform in the quote's own certificate; undefined if the certificate is malformed. */
function platformIn({ pckChainPem }: TdxQuote): PckPlatform | undefined {
  try {
    const [leaf] = parsePem(pckChainPem, { label: 'CERTIFICATE', maxBlocks: 8 });
    if (leaf === undefined) return undefined;
    return parsePlatform(parseCertificate(leaf), new CheckList(tdxErrors, 'reading a PCK certificate'));
  } catch (error) {
    if (error instanceof X509Error || error instanceof AttestationError) return undefined;
    throw error;
  }
}

/** MRTD and the runtime registers, with the names that policies use. */
export function tdxMeasurements(report: TdReport): Verdict['measurements'] {
  const rtmrs = report.rtmrs.map((value, index) => [`rtmr${index}`, Uint8Array.from(value)] as const);
  return new Map([['mrtd', Uint8Array.from(report.mrTd)], ...rtmrs]);
}

/** The TCB of a platform, in Intel's numbering. */
export function platformTcb({ cpuSvn, pceSvn, fmspc }: PckPlatform): Readonly<Record<string, Claim>> {
  return { cpuSvn: cpuSvn.join('.'), pceSvn, fmspc: toHex(fmspc) };
}

/** The fields of a quote, for display and policies. */
export function quoteClaims({
  version,
  report,
}: Pick<TdxQuote, 'version' | 'report'>): Readonly<Record<string, Claim>> {
  const { attributes, mrServiceTd, teeTcbSvn2 } = report;
  return {
    quoteVersion: version,
    bodyType: report.bodyType,
    mrSeam: toHex(report.mrSeam),
    mrSignerSeam: toHex(report.mrSignerSeam),
    seamAttributes: toHex(report.seamAttributes),
    tdAttributes: `0x${attributes.raw.toString(16)}`,
    debug: attributes.underDebug,
    migratable: attributes.migratable,
    septVeDisable: attributes.septVeDisable,
    xfam: toHex(report.xfam),
    mrConfigId: toHex(report.mrConfigId),
    mrOwner: toHex(report.mrOwner),
    mrOwnerConfig: toHex(report.mrOwnerConfig),
    reportData: toHex(report.reportData),
    ...(teeTcbSvn2 === undefined ? {} : { teeTcbSvn2: toHex(teeTcbSvn2) }),
    ...(mrServiceTd === undefined ? {} : { mrServiceTd: toHex(mrServiceTd) }),
  };
}
