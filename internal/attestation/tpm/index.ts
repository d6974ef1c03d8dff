/**
 * TPM 2.0 evidence: a quote over PCRs for one session, by a key that is known to be in the TPM of one machine.
 *
 *   createTpmIssuer ──▶ document (evidence.ts) ──▶ TpmValidator
 *                                                   verify-*.ts  key, signature, binding, PCRs, clock, log
 *                                                   validator.ts registers and machine against the policy
 *
 * `verifyTpmEvidence()` is for callers that check registers and machine themselves, `verifyQuote()` for quotes of other tools.
 */
export { checkAttestationKey } from './attestation-key.ts';
export { checkClock, describeClock, isClockForward } from './clock.ts';
export { quoteErrors, type QuoteErrorCode } from './errors.ts';
export { decodeTpmEvidence, encodeTpmEvidence, type QuoteParts } from './evidence.ts';
export { createTpmIssuer, FIRMWARE_EVENT_LOG } from './issuer.ts';
export { openKeySecret } from './key-secret.ts';
export { measureMachine, type MachineMeasurement } from './measure.ts';
export { AttestationKeyCache } from './key-cache.ts';
export { verifyQuote, verifyQuoteByKey, type VerifiedQuote } from './verify-quote.ts';
export type { KnownAttestationKey, TpmClock, TpmRules } from './rules.ts';
export { clockOfVerdict, lockCounterOf, quoteClaims, tpmMeasurements, TpmValidator } from './validator.ts';
export { nameOfBytes } from './verify-evidence.ts';
