/**
 * Enrolment of a machine: links its attestation key to the TPM of a known manufacturer. The endorsement key cannot sign, so
 * the verifier sends a challenge that only this TPM can decrypt (TPM 2.0 Part 1, 24).
 *
 *   machine                                     verifier
 *   readEnrolmentRequest ── EK, certificate, AK ──▶ verifyEndorsement     chain, usage, keys, attributes
 *   answerChallenge      ◀── credential ─────────── CredentialActivations.challenge
 *                        ── HMAC over session ────▶ CredentialActivations.verifyAnswer, once
 *                                                   └─▶ the AK's Name is pinned to `tpm-ek:…` in the cluster's record
 *
 * Then quotes by that key are `endorsed` (`TpmEndorsements`). The record can be revoked immediately, unlike an AK
 * certificate. `compareClockObservations()` detects a copied TPM state that is used on two machines.
 */
export { CredentialActivations, type Challenge } from './credential-activations.ts';
export { encryptForTpm, decryptWithTpm, type TpmEnvelope } from './tpm-envelope.ts';
export {
  endorsementKeyIdOf,
  verifyEndorsement,
  type Endorsement,
  type EndorsementOptions,
  type EndorsementTrust,
  type EnrolmentRequest,
} from './endorsement.ts';
export { answerChallenge, readEnrolmentRequest, type MachineOptions } from './machine-enrolment.ts';
export { makeCredential } from './make-credential.ts';
export {
  claimedIdentity,
  decodeChallenge,
  decodeEnrolmentRequest,
  encodeChallenge,
  encodeEnrolmentRequest,
  MAX_ENROLMENT_BYTES,
} from './wire.ts';
export {
  compareClockObservations,
  latestClockObservation,
  type ClockObservation,
} from './clock-observation.ts';
