import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** Errors of the TPM. */
export const tpmErrors = defineErrors({
  'tpm-unavailable': retryable.system.precondition(
    'The TPM cannot be opened: the device or socket does not exist, or permission is denied.',
    'Check that the path in the provisioning file exists and is readable. On hardware, enable the TPM in the firmware setup.',
  ),
  'tpm-timeout': retryable.system.unreachable(
    'The TPM did not respond to a command in time, and the connection was closed.',
    'Check that no other program uses the TPM (a software TPM serves one connection at a time), then try again.',
  ),
  'tpm-connection': retryable.system.unreachable(
    'The connection to the TPM broke during a command.',
    'For a software TPM, check that its process is running. Then try again.',
  ),
  'tpm-busy': retryable.system.unreachable(
    'The TPM was busy during all attempts, or too many requests are waiting for it.',
    'Try again in a minute. If it persists, look for a program that uses the TPM constantly.',
  ),
  'tpm-malformed': fault.peer.internal(
    'A TPM structure violates the TPM 2.0 specification: a length, tag or value is wrong.',
    'If the local TPM sent the structure, update the firmware of the TPM. If the structure came over the network, do not trust the sender.',
  ),
  'tpm-response-altered': fault.peer.refused(
    'A response was altered on its way from the TPM, or does not come from the TPM with which the session was opened.',
    'Examine the machine for a device between its mainboard and its TPM. On a virtual machine, ask who operates the host. Do not use the machine until this is explained.',
  ),
  'tpm-storage-key-changed': fault.peer.refused(
    'The TPM shows another storage key than the one for which a secret was sealed: this is another TPM, it was cleared, or something between mainboard and TPM answers in its place.',
    'If the TPM was replaced or cleared on purpose, recover the disk with the owner key. Otherwise examine the machine before you use it.',
  ),
  'tpm-refused': fault.system.precondition(
    'The TPM refused a command. The details name the command and the response code.',
    'Look up the response code in the TPM 2.0 specification, Part 2, 6.6, or with `tpm2_rc_decode`.',
  ),
  'tpm-auth-failed': fault.system.refused(
    'The TPM refused the authorization value of a key, an index or a hierarchy.',
    'Set empty passwords for the owner and endorsement hierarchies (or clear the TPM in the firmware setup), and check that this agent created the key.',
  ),
  'tpm-nv-foreign': fault.operator.precondition(
    'Other software uses the NV index at which this program keeps its lock counter.',
    'Find out which software uses the NV index in the message. If no software uses it, undefine the index (`tpm2_nvundefine`) and try again.',
  ),
  'tpm-policy-failed': fault.system.refused(
    'The TPM does not unseal a secret, because the PCRs do not have the values that it was sealed to.',
    'Boot the software that the secret was sealed to, or recover the secret with the owner key and seal it again.',
  ),
  'tpm-seal-unproved': fault.peer.refused(
    'The TPM does not prove that a secret was sealed for this purpose by the software that is running now.',
    'If you restored the disk that the secret comes from, or the boot software changed after the sealing, recover the disk with the owner key. Otherwise do not use the disk: somebody may have replaced the secret.',
  ),
  'tpm-credential-rejected': fault.peer.refused(
    'The TPM refused a credential or a sealed blob, because it was created for another key or was altered.',
    'Start the enrolment again. A credential is valid only for the EK and the AK that it was created for.',
  ),
  'tpm-handle-missing': fault.system.precondition(
    'A persistent key or an NV index does not exist in the TPM.',
    'Restart the agent, which creates its own keys and NV indices if the TPM lacks them. If the error appears again, find the software that removes keys or NV indices from this TPM.',
  ),
  'tpm-lockout': retryable.system.precondition(
    'The TPM is in lockout after too many wrong authorization values.',
    'Wait for the recovery time of the TPM, or clear the lockout (`tpm2_dictionarylockout --clear-lockout`).',
  ),
  'tpm-pcrs-moving': retryable.system.unreachable(
    'PCRs were extended during each attempt to read or quote them.',
    'Run the same command again when the machine has finished starting: `systemctl is-system-running --wait`.',
  ),
});

/** Codes of `TpmError`. */
export type TpmErrorCode = keyof typeof tpmErrors;

/** The TPM failed or refused a command, or a TPM structure is malformed. */
export class TpmError extends errorClass(tpmErrors) {}

/** The error of every parser of TPM structures; `what` completes the text "reading …". */
export function malformed(what: string, details?: Readonly<Record<string, unknown>>): TpmError {
  return new TpmError('tpm-malformed', `reading ${what}`, details === undefined ? {} : { details });
}

/** The refusal of a sealed secret. */
export function unproved(why: string, cause?: unknown): TpmError {
  return new TpmError('tpm-seal-unproved', `unsealing a secret: ${why}`, { cause });
}
