/**
 * Enrolment of machine identity: ties an attestation key to the TPM of a known manufacturer. The endorsement key can't
 * sign, so the link is a challenge that only one TPM can open (TPM 2.0 Part 1, 24).
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
export { Activations, type ActivationOptions, type Challenge } from './activation.ts';
export { closeBox, openBox, type Box } from './box.ts';
export {
  endorsementKeyIdOf,
  verifyEndorsement,
  type Endorsement,
  type EndorsementOptions,
  type EndorsementTrust,
  type EnrolmentRequest,
} from './endorsement.ts';
export { enrolErrors, type EnrolErrorCode } from './errors.ts';
export { answerChallenge, readEnrolmentRequest, type MachineOptions } from './machine.ts';
export { makeCredential, type Credential } from './make-credential.ts';
export { decodeChallenge, decodeEnrolmentRequest, encodeChallenge, encodeEnrolmentRequest } from './wire.ts';
export {
  compareSightings,
  nextSighting,
  type Finding,
  type FindingKind,
  type Sighting,
} from './sightings.ts';
