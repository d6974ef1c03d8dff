import { decodeDocument, encodeDocument, type DocumentFormat } from '../document.ts';
import { AttestationError } from '../errors.ts';
import { endorsementKeyIdentity } from '../verdict.ts';
import type { Challenge } from './credential-activations.ts';
import { endorsementKeyIdOf, type EnrolmentRequest } from './endorsement.ts';
import { enrolErrors, type EnrolErrorCode } from './errors.ts';

const REQUEST: DocumentFormat<EnrolErrorCode> = {
  magic: 'CENR',
  maxParts: 3,
  catalogue: enrolErrors,
  malformed: 'enrol-message-malformed',
};
const CHALLENGE: DocumentFormat<EnrolErrorCode> = { ...REQUEST, magic: 'CCHA' };
const ID = /^[0-9a-f]{32}$/;

/** The longest request that is decoded: two keys and a certificate, a few KiB. */
export const MAX_ENROLMENT_BYTES = 16 * 1024;

/** Encodes a request: EK, its certificate (empty if there is none), AK. */
export function encodeEnrolmentRequest(request: EnrolmentRequest): Uint8Array {
  const { endorsementKey, endorsementCertificate = new Uint8Array(0), attestationKey } = request;
  return encodeDocument(REQUEST.magic, [endorsementKey, endorsementCertificate, attestationKey]);
}

/** Decodes an untrusted request, whose size the caller limits. Throws AttestationError `enrol-message-malformed`. */
export function decodeEnrolmentRequest(bytes: Uint8Array): EnrolmentRequest {
  const [endorsementKey, endorsementCertificate, attestationKey] = decodeDocument(bytes, REQUEST);
  if (endorsementKey === undefined || endorsementCertificate === undefined || attestationKey === undefined)
    throw malformed('a request has three parts');
  return {
    endorsementKey,
    ...(endorsementCertificate.length === 0 ? {} : { endorsementCertificate }),
    attestationKey,
  };
}

/** Encodes a challenge. */
export function encodeChallenge({ id, credentialBlob, encryptedSeed }: Challenge): Uint8Array {
  return encodeDocument(CHALLENGE.magic, [Buffer.from(id, 'ascii'), credentialBlob, encryptedSeed]);
}

/** Decodes the verifier's challenge. Throws AttestationError `enrol-message-malformed`. */
export function decodeChallenge(bytes: Uint8Array): Challenge {
  const [id, credentialBlob, encryptedSeed] = decodeDocument(bytes, CHALLENGE);
  const text = Buffer.from(id ?? []).toString('latin1');
  if (credentialBlob === undefined || encryptedSeed === undefined || !ID.test(text))
    throw malformed('a challenge has an id and two parts');
  return { id: text, credentialBlob, encryptedSeed };
}

function malformed(actual: string): Error {
  return new AttestationError(enrolErrors, 'enrol-message-malformed', 'reading an enrolment message', {
    actual,
  });
}

/**
 * The identity of the machine (`tpm-ek:…`) that an encoded enrolment request claims. It proves nothing: only what is encrypted for this TPM does.
 * @throws AttestationError if the request is malformed
 */
export function claimedIdentity(enrolment: Uint8Array): string {
  return endorsementKeyIdentity(endorsementKeyIdOf(decodeEnrolmentRequest(enrolment).endorsementKey));
}
