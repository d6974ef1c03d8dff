import { AttestationError } from '../errors.ts';
import { EventlogError, eventlogErrors, parseEventLog, replayEventLog } from '../eventlog/index.ts';
import type { Check } from '../verdict.ts';

const RTMR_BYTES = 48;

/** In a CCEL register 0 is MRTD and 1 to 4 are RTMR0 to RTMR3 (UEFI 2.10, confidential computing event log). */
const LOG_REGISTERS = [1, 2, 3, 4];

/**
 * Computes RTMR0 to RTMR3 from the event log. Throws AttestationError `eventlog-…` for a malformed log, with the checks that
 * passed before.
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
