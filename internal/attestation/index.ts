/**
 * Domain layer: attestation, the proof of which machine, and which software on it, is at the other end.
 *
 *   machine                                   verifier
 *   Issuer.issue(binding) ── evidence ──▶ Validator.validate(evidence, binding, { nowMs, policy, collateral })
 *                                             ├─▶ Verdict: named checks, measurements, identity, claims
 *                                             └─▶ AttestationError: the check that failed, expected, actual
 *
 * Evidence is untrusted until its signature has been verified. Validators are pure: they use no network and no clock. A
 * missing policy section, endorsement or register leads to a refusal.
 */
export { checkMachine, checkRegisters, warningsOf } from './appraise.ts';
export { CheckList } from './check-list.ts';
export { AppraisalError, AttestationError } from './errors.ts';
export {
  DEFAULT_LOCK_PCR,
  lockDigest,
  lockedValue,
  withLockRegister,
  type LockExpectation,
} from './lock-register.ts';
export type { Collateral, Policy } from './rules.ts';
export type { KnownAttestationKey } from './tpm/rules.ts';
export {
  VERIFY_NONCE_BYTES,
  bindingOfDiskSeal,
  bindingOfVerifyRequest,
  type VerifyRequest,
} from './verify-request.ts';
export {
  BINDING_BYTES,
  endorsementKeyIdentity,
  endorsementKeyIdIn,
  MAX_EVIDENCE_BYTES,
  machineIdentityText,
  MEASURED_VARIANTS,
  proofText,
  type Check,
  type Claim,
  type DecodedEvidence,
  type Issuer,
  type MachineIdentity,
  type MeasuredVariant,
  type SessionIssuer,
  type ValidationContext,
  type Validator,
  type Variant,
  type Verdict,
  VARIANTS,
} from './verdict.ts';
