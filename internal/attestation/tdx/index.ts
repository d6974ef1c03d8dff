/**
 * Intel TDX: evidence of a confidential virtual machine, signed by the quoting enclave of its platform.
 *
 *   configfs-tsm ─TdxIssuer─▶ { quote, event log } ─▶ TdxValidator
 *     parseQuote        form, versions 4 and 5
 *     verifyTdxQuote    PCK chain ▶ quoting enclave ▶ attestation key ▶ quote; revocation; TCB  → genuine
 *     IntelCollateral   TCB info, QE identity, CRLs: signed by Intel, judged by date
 *     evaluateTcb       platform, TDX module and enclave against Intel's levels
 *     checkTdxPolicy    the genuine quote against the policy
 */
export { IntelCollateral } from './collateral.ts';
export { tdxErrors } from './errors.ts';
export { decodeTdxEvidence, encodeTdxEvidence } from './evidence.ts';
export { intelTrust } from './intel-root.ts';
export { TdxIssuer } from './issuer.ts';
export { parseQuote } from './quote.ts';
export { describeTdxEvidence } from './quote-claims.ts';
export type { TdxCollateral, TdxRules } from './rules.ts';
export { verifyTdxEvidence } from './verify-evidence.ts';
export { prepareCollateral, TdxValidator } from './validator.ts';
export type { TdxTrust } from './verify-quote.ts';
