import { defineErrors, fault } from '../../errors/index.ts';
import { refusalClass } from '../errors.ts';

const refusal = fault.peer.refused;
const ALTERED =
  'Read the log from the machine again. If the refusal persists, update the firmware: it may write the old SHA-1 format.';

/** Refusals of firmware event logs, one for each check. */
export const eventlogErrors = defineErrors({
  'eventlog-too-large': refusal('The event log is larger than the limit of 256 KiB.', ALTERED),
  'eventlog-truncated': refusal('The event log ends within an event, or a size field exceeds it.', ALTERED),
  'eventlog-header': refusal(
    'The event log does not begin with the header that names its hash algorithms (Spec ID Event03).',
    ALTERED,
  ),
  'eventlog-algorithms': refusal(
    'The header names no hash algorithm, too many, one of them twice, or one with a wrong digest size.',
    ALTERED,
  ),
  'eventlog-digests': refusal(
    'An event does not have exactly one digest of each algorithm in the header.',
    ALTERED,
  ),
  'eventlog-register': refusal('An event names a register that does not exist.', ALTERED),
  'eventlog-padding': refusal('The padding after the last event is neither all 0x00 nor all 0xff.', ALTERED),
  'eventlog-locality': refusal(
    'The StartupLocality record is duplicate, malformed, or follows an extension of PCR 0.',
    ALTERED,
  ),
  'eventlog-bank-missing': refusal(
    'The log has no digests of the hash algorithm of the quoted registers.',
    'Enable the SHA-256 bank in the firmware setup (SHA-384 for TDX).',
  ),
  'eventlog-replay': refusal(
    'The events of a register do not replay to its quoted value: they are incomplete, altered, reordered, or from another boot.',
    'Restart the machine. If the refusal persists, its software extends this register without logging it: remove the register from `loggedPcrs`.',
  ),
});

/** A firmware event log was refused. */
export class EventlogError extends refusalClass(eventlogErrors) {}
