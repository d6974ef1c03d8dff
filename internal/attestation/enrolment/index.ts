/**
 * Enrolment of a machine: links its attestation key to the TPM of a known manufacturer. The endorsement key cannot sign, so
 * the verifier sends a challenge that only this TPM can decrypt (TPM 2.0 Part 1, 24).
 *
 *   machine                                     verifier
 *   readEnrolmentRequest ── EK, certificate, AK ──▶ verifyEndorsement     chain, usage, keys, attributes
 *   answerChallenge      ◀── credential ─────────── Activations.challenge
 *                        ── HMAC over session ────▶ Activations.redeem    once
 *                                                   └─▶ the AK's Name is pinned to `tpm-ek:…` in the cluster's record
 *
 * From then on quotes by that key are `endorsed` (`TpmEndorsements`). The record is by Name and can be taken back at
 * once, which an AK certificate could not. `compareSightings` notices a copied TPM state that shows up twice.
 */
export { CredentialActivations, type ActivationOptions, type Challenge } from './credential-activations.ts';
export { encryptForTpm, decryptWithTpm, type TpmEnvelope } from './tpm-envelope.ts';
export {
  endorsementKeyIdOf,
  verifyEndorsement,
  type Endorsement,
  type EndorsementOptions,
  type EndorsementTrust,
  type EnrolmentRequest,
} from './endorsement.ts';
export { type EnrolErrorCode } from './errors.ts';
export { answerChallenge, readEnrolmentRequest, type MachineOptions } from './machine-enrolment.ts';
export { makeCredential, type Credential } from './make-credential.ts';
export { decodeChallenge, decodeEnrolmentRequest, encodeChallenge, encodeEnrolmentRequest } from './wire.ts';
export {
  compareClockObservations,
  latestClockObservation,
  type TpmAnomaly,
  type TpmAnomalyKind,
  type ClockObservation,
} from './clock-observation.ts';
