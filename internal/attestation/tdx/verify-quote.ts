import { createHash, type KeyObject } from 'node:crypto';
import { p256KeyFromPoint } from '../../crypto/index.ts';
import { equalBytes } from '../bytes.ts';
import { refuseOnCertificateError } from '../certificate-refusal.ts';
import { CheckList } from '../check-list.ts';
import {
  describeName,
  isEcdsaSignatureValid,
  parsePem,
  verifyPath,
  type Certificate,
  type CertificateCache,
} from '../x509/index.ts';
import type { IntelCollateral, IntelTrustOptions } from './collateral.ts';
import { parseEnclaveReport, type EnclaveReport } from './enclave-report.ts';
import { tdxErrors, type TdxErrorCode } from './errors.ts';
import type { QeIdentity, TcbInfo } from './intel-json.ts';
import { isPckChain, parsePlatform, type PckPlatform } from './pck.ts';
import { parseQuote, type TdxQuote } from './quote.ts';
import { evaluateTcb, type TdxTcb } from './tcb.ts';

/** Trusted roots by the SHA-256 of their certificate. */
export interface TdxTrust {
  readonly roots: ReadonlySet<string>;
}

/** Inputs of `verifyTdxQuote()`. */
export interface TdxVerifyOptions {
  readonly trust: TdxTrust;
  readonly cache: CertificateCache;
  /** undefined skips TCB and revocation, for offline inspection. */
  readonly collateral: IntelCollateral | undefined;
  readonly nowMs: number;
}

/** The TCB of the platform that created a quote, and the documents that it was evaluated with. */
export interface TdxAppraisedTcb extends TdxTcb {
  readonly tcbInfo: TcbInfo;
  readonly qeIdentity: QeIdentity;
}

/** A quote that an Intel platform signed. Not yet compared with a policy. */
export interface VerifiedTdxQuote {
  readonly quote: TdxQuote;
  readonly platform: PckPlatform;
  readonly tcb: TdxAppraisedTcb | undefined;
  readonly checks: CheckList<TdxErrorCode>;
}

/**
 * Verifies that an Intel platform signed a quote: form, PCK chain to the pinned root, quoting enclave signed by the PCK,
 * attestation key certified by the enclave, quote signed by that key; then revocation and TCB. Throws AttestationError.
 */
export function verifyTdxQuote(bytes: Uint8Array, options: TdxVerifyOptions): VerifiedTdxQuote {
  const checks: CheckList<TdxErrorCode> = new CheckList(tdxErrors, 'verifying a TDX quote');
  const quote = parseQuote(bytes, checks);
  const trust = intelTrust(options, checks);
  const chain = verifyPckChain(quote, trust);
  const qeReport = verifyQeReport(quote, chain, checks);
  const key = attestationKey(quote.attestationKey, checks);
  checks.require(
    'tdx-signature',
    isEcdsaSignatureValid({ kind: 'p256', key }, 'sha256', quote.signed, quote.signature),
  );
  const [leaf] = chain;
  const platform = parsePlatform(leaf, checks);
  const { collateral } = options;
  if (collateral === undefined) return { quote, platform, tcb: undefined, checks };
  collateral.checkRevocation(chain, trust);
  checks.require('tdx-revocation', true);
  const tcbInfo = collateral.tcbInfo(platform.fmspc, trust);
  const qeIdentity = collateral.qeIdentity(trust);
  const tcb = evaluateTcb({ report: quote.report, platform, qeReport }, { tcbInfo, qeIdentity }, checks);
  return { quote, platform, tcb: { ...tcb, tcbInfo, qeIdentity }, checks };
}

function intelTrust(
  { trust, cache, nowMs }: TdxVerifyOptions,
  checks: CheckList<TdxErrorCode>,
): IntelTrustOptions {
  return { cache, nowMs, checks, isPinned: (root) => trust.roots.has(root.fingerprint) };
}

type PckChain = readonly [Certificate, ...Certificate[]];

/** The quote must contain the complete chain in order. */
function verifyPckChain(
  { pckChainPem }: TdxQuote,
  { checks, cache, isPinned, nowMs }: IntelTrustOptions,
): PckChain {
  const chain = refuseOnCertificateError(checks, 'pck-chain', () =>
    parsePem(pckChainPem, { label: 'CERTIFICATE', maxBlocks: 8 }).map((der) => cache.parse(der)),
  );
  const names = chain.map((each) => describeName(each.subject)).join(' ← ');
  checks.require('tdx-pck-chain', isPckChain(chain), { actual: names });
  refuseOnCertificateError(checks, 'pck-chain', () => verifyPath({ chain, isPinned, atMs: nowMs, cache }));
  return chain as unknown as PckChain;
}

function verifyQeReport(quote: TdxQuote, [leaf]: PckChain, checks: CheckList<TdxErrorCode>): EnclaveReport {
  const { qeReport, qeReportSignature, attestationKey: key, qeAuthData } = quote;
  checks.require(
    'tdx-qe-report-signature',
    isEcdsaSignatureValid(leaf.publicKey, 'sha256', qeReport, qeReportSignature),
  );
  const report = parseEnclaveReport(qeReport);
  const expected = Buffer.concat([
    createHash('sha256').update(key).update(qeAuthData).digest(),
    Buffer.alloc(32),
  ]);
  checks.require('tdx-qe-report-data', equalBytes(report.reportData, expected), {
    expected: expected.toString('hex'),
    actual: Buffer.from(report.reportData).toString('hex'),
  });
  return report;
}

/** The key with these coordinates x and y; refuses a point that is not on the curve. */
function attestationKey(xy: Uint8Array, checks: CheckList<TdxErrorCode>): KeyObject {
  try {
    const key = p256KeyFromPoint(xy);
    checks.require('tdx-attestation-key', true);
    return key;
  } catch (cause) {
    throw checks.refusal('tdx-attestation-key', { actual: Buffer.from(xy).toString('hex') }, { cause });
  }
}
