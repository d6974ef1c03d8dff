import { TpmError, type TpmErrorCode } from './errors.ts';
import { hex } from './wire.ts';

/** The response codes (TPM_RC; Part 2, 6.6.3) that this project distinguishes. */
const RC = {
  initialize: 0x100,
  policy: 0x126,
  objectMemory: 0x902,
  yielded: 0x908,
  testing: 0x90a,
  nvRate: 0x920,
  lockout: 0x921,
  retry: 0x922,
  nvUnavailable: 0x923,
} as const;

/** Whether the same command should be repeated: the TPM is in its self-test, was interrupted, or limits writes to flash. */
export function isRetryable(rc: number): boolean {
  return (
    rc === RC.retry || rc === RC.yielded || rc === RC.testing || rc === RC.nvRate || rc === RC.nvUnavailable
  );
}

/** Whether a command failed because the TPM has not received TPM2_Startup since power-on. */
export function isUninitialized(error: unknown): boolean {
  return error instanceof TpmError && error.details['responseCode'] === hex(RC.initialize);
}

/**
 * Bit of format-one codes. Their upper bits tell which handle, parameter or session was wrong, and are ignored here.
 */
const FORMAT_ONE = 0x080;
const CODES_OF_FORMAT_ONE: ReadonlyMap<number, TpmErrorCode> = new Map([
  [0x08b, 'tpm-handle-missing'], // TPM_RC_HANDLE
  [0x08e, 'tpm-auth-failed'], // TPM_RC_AUTH_FAIL
  [0x09d, 'tpm-policy-failed'], // TPM_RC_POLICY_FAIL
  [0x09f, 'tpm-credential-rejected'], // TPM_RC_INTEGRITY
  [0x0a2, 'tpm-auth-failed'], // TPM_RC_BAD_AUTH
]);

/** The error for a response code of the TPM. */
export function errorFromResponseCode(command: string, rc: number): TpmError {
  const details = { command, responseCode: hex(rc) };
  return new TpmError(codeOf(rc), `sending ${command} to the TPM: response code ${hex(rc)}`, { details });
}

function codeOf(rc: number): TpmErrorCode {
  if (isRetryable(rc)) return 'tpm-busy';
  if (rc === RC.lockout) return 'tpm-lockout';
  if (rc === RC.policy) return 'tpm-policy-failed'; // a counter has another value than the policy demands
  if ((rc & FORMAT_ONE) !== 0) {
    return CODES_OF_FORMAT_ONE.get(FORMAT_ONE | (rc & 0x3f)) ?? 'tpm-refused';
  }
  return 'tpm-refused';
}
