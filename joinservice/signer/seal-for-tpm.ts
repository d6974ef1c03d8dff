import { AttestationError } from '../../internal/attestation/index.ts';
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

const TPM_EK = 'tpm-ek:';

/**
 * Closes a text for the machine that an owner has named by its TPM. That the attestation key on record belongs to that TPM
 * is the word of whoever wrote the record; only the TPM itself opens the box. Other identities are proved by the evidence.
 * @throws SignerError `signer-machine-other`
 */
export function sealForTpm(
  text: Secret<Uint8Array>,
  shows: { readonly akName: string | undefined; readonly machine: MachineRecord },
  asked: { readonly enrolment: Uint8Array; readonly session: Uint8Array },
): Secret<Uint8Array> {
  const { identity } = shows.machine;
  if (!identity.startsWith(TPM_EK)) return text;
  try {
    const request = decodeEnrolmentRequest(asked.enrolment);
    const id = endorsementKeyIdOf(request.endorsementKey);
    // Who vouches for the TPM is the owner who named it: there is no certificate to judge.
    const trust = { roots: new Set<string>(), authorities: [], pinnedKeys: new Set([id]) };
    const options = { cache: new CertificateCache(), nowMs: 0, trust };
    const endorsement = verifyEndorsement(request, options);
    if (`${TPM_EK}${id}` !== identity || endorsement.attestationKeyNameHex !== shows.akName)
      throw new SignerError('signer-machine-other', `closing keys for ${identity}: ${TPM_EK}${id} has asked`);
    const box = encryptForTpm(text, endorsement, asked.session);
    return new Secret(new Uint8Array(Buffer.from(JSON.stringify(box), 'utf8')));
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw new SignerError('signer-machine-other', `closing keys for ${identity}: its enrolment`, { cause });
  }
}
