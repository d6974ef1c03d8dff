import {
  AttestationError,
  endorsementKeyIdentity,
  endorsementKeyIdIn,
} from '../../internal/attestation/index.ts';
import {
  encryptForTpm,
  decodeEnrolmentRequest,
  endorsementKeyIdOf,
  verifyEndorsement,
  type TpmEnvelope,
} from '../../internal/attestation/enrolment/index.ts';
import { CertificateCache } from '../../internal/attestation/x509/index.ts';
import type { MachineRecord } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { SignerError } from './errors.ts';

/** The TPM that evidence comes from, and the machine on record. */
interface ShownTpm {
  readonly akName: string | undefined;
  readonly machine: Pick<MachineRecord, 'identity'>;
}

/** What the machine has sent about its TPM. Untrusted. */
interface AskedForTpm {
  readonly enrolment: Uint8Array;
  readonly session: Uint8Array;
}

/**
 * Encrypts a text so that only the TPM with the recorded identity can decrypt it. The record alone does not prove that the
 * attestation key belongs to that TPM. For other identities the evidence proves the machine, and the text is returned as it is.
 * @throws SignerError `signer-machine-other`
 */
export function sealForTpm(
  text: Secret<Uint8Array>,
  shows: ShownTpm,
  asked: AskedForTpm,
): Secret<Uint8Array> {
  if (endorsementKeyIdIn(shows.machine.identity) === undefined) return text;
  const box = envelopeForTpm(text, shows, asked);
  return new Secret(new Uint8Array(Buffer.from(JSON.stringify(box), 'utf8')));
}

/**
 * Encrypts a text so that only the TPM with the recorded identity can decrypt it, and only if it has the attestation key that has signed the
 * evidence.
 * @throws SignerError `signer-machine-other`
 */
export function envelopeForTpm(
  text: Secret<Uint8Array>,
  { akName, machine: { identity } }: ShownTpm,
  { enrolment, session }: AskedForTpm,
): TpmEnvelope {
  try {
    const request = decodeEnrolmentRequest(enrolment);
    const id = endorsementKeyIdOf(request.endorsementKey);
    // The owner who listed the TPM vouches for it, so no certificate is verified.
    const trust = { roots: new Set<string>(), authorities: [], pinnedKeys: new Set([id]) };
    const options = { cache: new CertificateCache(), nowMs: 0, trust };
    const endorsement = verifyEndorsement(request, options);
    if (endorsementKeyIdentity(id) !== identity || endorsement.attestationKeyNameHex !== akName)
      throw new SignerError(
        'signer-machine-other',
        `sealing for ${identity}: requested by ${endorsementKeyIdentity(id)}`,
      );
    return encryptForTpm(text, endorsement, session);
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw new SignerError('signer-machine-other', `sealing for ${identity}: invalid enrolment`, { cause });
  }
}
