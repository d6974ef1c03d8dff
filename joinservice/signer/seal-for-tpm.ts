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
} from '../../internal/attestation/enrolment/index.ts';
import { CertificateCache } from '../../internal/attestation/x509/index.ts';
import type { MachineRecord } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { SignerError } from './errors.ts';

/**
 * Encrypts a text so that only the TPM with the recorded identity can decrypt it. The record alone does not prove that the
 * attestation key belongs to that TPM. For other identities the evidence proves the machine, and the text is returned as it is.
 * @throws SignerError `signer-machine-other`
 */
export function sealForTpm(
  text: Secret<Uint8Array>,
  shows: { readonly akName: string | undefined; readonly machine: MachineRecord },
  asked: { readonly enrolment: Uint8Array; readonly session: Uint8Array },
): Secret<Uint8Array> {
  const { identity } = shows.machine;
  if (endorsementKeyIdIn(identity) === undefined) return text;
  try {
    const request = decodeEnrolmentRequest(asked.enrolment);
    const id = endorsementKeyIdOf(request.endorsementKey);
    // The owner who listed the TPM vouches for it, so no certificate is verified.
    const trust = { roots: new Set<string>(), authorities: [], pinnedKeys: new Set([id]) };
    const options = { cache: new CertificateCache(), nowMs: 0, trust };
    const endorsement = verifyEndorsement(request, options);
    if (endorsementKeyIdentity(id) !== identity || endorsement.attestationKeyNameHex !== shows.akName)
      throw new SignerError(
        'signer-machine-other',
        `sealing keys for ${identity}: requested by ${endorsementKeyIdentity(id)}`,
      );
    const box = encryptForTpm(text, endorsement, asked.session);
    return new Secret(new Uint8Array(Buffer.from(JSON.stringify(box), 'utf8')));
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw new SignerError('signer-machine-other', `sealing keys for ${identity}: invalid enrolment`, {
      cause,
    });
  }
}
