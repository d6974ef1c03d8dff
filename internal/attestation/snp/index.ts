/**
 * AMD SEV-SNP: evidence of a confidential virtual machine, signed by its processor.
 *
 *   configfs-tsm ─SnpIssuer─▶ { report, certificates } ─▶ SnpValidator
 *     parseReport      form, to the bit (AMD 56860)
 *     findChain        which certificate, product, authority (AMD 57230)
 *     verifySnpReport  path to a pinned ARK, chip, TCB, revocation, signature  → genuine
 *     checkSnpPolicy   the genuine report against the policy
 */
export { certificatesFromTable, decodeSnpEvidence, encodeSnpEvidence } from './evidence.ts';
export { SnpIssuer } from './issuer.ts';
export { type SnpProduct } from './product.ts';
export { parseReport } from './report.ts';
export { describeSnpEvidence } from './report-claims.ts';
export type { SnpCollateral, SnpRules } from './rules.ts';
export { type SnpTcb } from './tcb.ts';
export { amdTrust } from './trust.ts';
export { verifySnpEvidence } from './verify-evidence.ts';
export { SnpValidator } from './validator.ts';
export type { SnpTrust } from './verify-report.ts';
