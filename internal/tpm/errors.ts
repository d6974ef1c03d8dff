import { defineErrors, errorClass } from '../errors/index.ts';

export const tpmErrors = defineErrors({
  'tpm-unavailable': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The TPM cannot be opened: no such device or socket, or no permission.',
    fix: 'Look at the path in the message and in the provisioning file; on hardware, enable the TPM in the firmware setup.',
  },
  'tpm-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The TPM did not answer a command in time. The connection to it was given up.',
    fix: 'See that nothing else holds the TPM (a software TPM serves one connection at a time), then try again.',
  },
  'tpm-connection': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The connection to the TPM broke during a command.',
    fix: 'If it is a software TPM, see that its process runs; then try again.',
  },
  'tpm-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The TPM asks to come back later, or too many requests wait for it; all attempts were used up.',
    fix: 'Try again later; when it stays so, look for a program that floods the TPM.',
  },
  'tpm-malformed': {
    fault: 'peer',
    exit: 'internal',
    retryable: false,
    meaning:
      'A TPM structure does not follow the TPM 2.0 specification: a length, a tag or a value is wrong.',
    fix: 'Where it came over the network it was altered; where it came from the TPM, update its firmware.',
  },
  'tpm-refused': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'The TPM refused a command. The details name the command and the response code.',
    fix: 'Look the response code up in the TPM 2.0 specification, Part 2, 6.6.',
  },
  'tpm-auth-failed': {
    fault: 'system',
    exit: 'refused',
    retryable: false,
    meaning: 'The TPM refused the authorization value of a key, an index or a hierarchy.',
    fix: 'See that the hierarchies have empty passwords, as an agent that owns the machine expects, and that the key is the one this agent made.',
  },
  'tpm-nv-foreign': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The NV index of the lock counter is defined as something else.',
    fix: 'See who uses the index in the message; if nobody does, undefine it (`tpm2_nvundefine`) and try again.',
  },
  'tpm-policy-failed': {
    fault: 'system',
    exit: 'refused',
    retryable: false,
    meaning: 'The TPM keeps a secret shut: the PCRs do not have the values it was sealed to.',
    fix: 'Boot the software the secret was sealed to, or recover it with the owner key and seal it again.',
  },
  'tpm-credential-rejected': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The TPM refused to open a credential or a blob: it was made for another key or altered.',
    fix: 'Enrol again; a credential opens only with the EK and the AK it was made for.',
  },
  'tpm-handle-missing': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'A persistent key or an NV index is not there.',
    fix: 'Manufacture or provision the TPM: EK certificates and counters are written once per machine.',
  },
  'tpm-lockout': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The TPM is in lockout after too many wrong authorization values.',
    fix: 'Wait for the recovery time of the TPM, or clear the lockout with its lockout authorization.',
  },
  'tpm-pcrs-moving': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'PCRs were extended each time while they were being read or quoted.',
    fix: 'Try again when the machine has finished starting.',
  },
});

export type TpmErrorCode = keyof typeof tpmErrors;

export class TpmError extends errorClass(tpmErrors) {}

/** All that a reader of TPM bytes ever throws. */
export function malformed(what: string, details?: Readonly<Record<string, unknown>>): TpmError {
  return new TpmError('tpm-malformed', `reading ${what}`, details === undefined ? {} : { details });
}
