import { AttestationError } from '../errors.ts';
import { EventlogError, eventlogErrors, parseEventLog, replayEventLog } from '../eventlog/index.ts';
import type { Check } from '../verdict.ts';

const RTMR_BYTES = 48;

/** In a CCEL register 0 is MRTD and 1 to 4 are RTMR0 to RTMR3 (UEFI 2.10, confidential computing event log). */
const LOG_REGISTERS = [1, 2, 3, 4];

/**
 * What RTMR0 to RTMR3 must hold if the log is the whole truth. What is wrong with the log itself is a refusal with the
 * code of its reader and the checks that passed before.
 */
export function replayRuntimeLog(log: Uint8Array, checks: readonly Check[]): readonly Uint8Array[] {
  try {
    const replayed = replayEventLog(parseEventLog(log, 'ccel'), 'sha384');
    return LOG_REGISTERS.map((register) => replayed.get(register) ?? new Uint8Array(RTMR_BYTES));
  } catch (error) {
    if (!(error instanceof EventlogError)) throw error;
    const { code, message, details } = error;
    throw new AttestationError(eventlogErrors, code, message, { details, checks, cause: error });
  }
}
