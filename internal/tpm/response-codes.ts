import { TpmError, type TpmErrorCode } from './errors.ts';
import { hex } from './wire.ts';

/** TPM_RC (Part 2, 6.6.3), reduced to what is told apart. */
const RC = {
  initialize: 0x100,
  objectMemory: 0x902,
  yielded: 0x908,
  testing: 0x90a,
  nvRate: 0x920,
  lockout: 0x921,
  retry: 0x922,
  nvUnavailable: 0x923,
} as const;

/** "Come back with the same command": the TPM is testing itself, was interrupted, or spares its flash. */
export function isRetryable(rc: number): boolean {
  return (
    rc === RC.retry || rc === RC.yielded || rc === RC.testing || rc === RC.nvRate || rc === RC.nvUnavailable
  );
}

/** TPM2_Startup has not been sent since the TPM was powered. */
export function isUninitialized(error: unknown): boolean {
  return error instanceof TpmError && error.details['responseCode'] === hex(RC.initialize);
}

/** Format-one codes carry in their upper bits which handle, parameter or session was meant: drop it. */
const FORMAT_ONE = 0x080;
const CODES_OF_FORMAT_ONE: ReadonlyMap<number, TpmErrorCode> = new Map([
  [0x08b, 'tpm-handle-missing'], // TPM_RC_HANDLE
  [0x08e, 'tpm-auth-failed'], // TPM_RC_AUTH_FAIL
  [0x09d, 'tpm-policy-failed'], // TPM_RC_POLICY_FAIL
  [0x09f, 'tpm-credential-rejected'], // TPM_RC_INTEGRITY
  [0x0a2, 'tpm-auth-failed'], // TPM_RC_BAD_AUTH
]);

/** Translates a response code once, at the port. */
export function errorFromResponseCode(command: string, rc: number): TpmError {
  const details = { command, responseCode: hex(rc) };
  return new TpmError(codeOf(rc), `asking the TPM for ${command}: refused with ${hex(rc)}`, { details });
}

function codeOf(rc: number): TpmErrorCode {
  if (isRetryable(rc)) return 'tpm-busy';
  if (rc === RC.lockout) return 'tpm-lockout';
  if ((rc & FORMAT_ONE) !== 0) {
    return CODES_OF_FORMAT_ONE.get(FORMAT_ONE | (rc & 0x3f)) ?? 'tpm-refused';
  }
  return 'tpm-refused';
}
