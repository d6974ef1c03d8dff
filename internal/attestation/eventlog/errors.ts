import { defineErrors } from '../../errors/index.ts';
import { refusalClass, refusedCheck } from '../errors.ts';

const ALTERED =
  'The log was altered or cut off on its way, or is in the old SHA-1 format; update the firmware if it is.';

/** Refusals of firmware event logs, by check. */
export const eventlogErrors = defineErrors({
  'eventlog-too-large': refusedCheck('The event log is larger than any real one.', ALTERED),
  'eventlog-truncated': refusedCheck(
    'The event log ends within an event, or a size points beyond its end.',
    ALTERED,
  ),
  'eventlog-header': refusedCheck(
    'The event log does not begin with the record that says which hash algorithms it uses (Spec ID Event03).',
    ALTERED,
  ),
  'eventlog-algorithms': refusedCheck(
    'The hash algorithms in the header are none, too many, double, or have a wrong digest size.',
    ALTERED,
  ),
  'eventlog-digests': refusedCheck(
    'An event does not have exactly one digest of each algorithm in the header.',
    ALTERED,
  ),
  'eventlog-register': refusedCheck('An event names a register that does not exist.', ALTERED),
  'eventlog-padding': refusedCheck(
    'After the last event come bytes that are neither all 0x00 nor all 0xff.',
    ALTERED,
  ),
  'eventlog-locality': refusedCheck(
    'The record of the startup locality is double, malformed, or comes after PCR 0 was extended.',
    ALTERED,
  ),
  'eventlog-bank-missing': refusedCheck(
    'The log has no digests of the hash algorithm that the registers are quoted in.',
    'Switch the SHA-256 bank on in the firmware setup (SHA-384 for TDX).',
  ),
  'eventlog-replay': refusedCheck(
    'The events of a register do not lead to its quoted value: events are missing, added, altered, in another order, or the log is of another boot.',
    'Boot the machine again; if it stays so, its software extends this register without logging it.',
  ),
});

export type EventlogErrorCode = keyof typeof eventlogErrors;

export class EventlogError extends refusalClass(eventlogErrors) {}
