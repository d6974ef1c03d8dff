/**
 * Firmware event logs: what was extended into which register, in order, and what the firmware says it was.
 *
 *   bytes ──parseEventLog──▶ EventLog ──verifyEventLog──▶ leads exactly to the quoted registers
 *                                └──isDataMeasured──▶ whether an event's data may be believed
 *
 * One reader for the logs of TPMs (PCRs) and of TDs (CCEL, RTMRs). A log proves nothing by itself and is unsigned;
 * after a replay against signed registers its digests are proved, and its data only where `isDataMeasured`.
 */
export { EventlogError, eventlogErrors, type EventlogErrorCode } from './errors.ts';
export { eventTypeName } from './event-types.ts';
export { parseEventLog, type EventLog, type LogEvent, type LogHash, type LogKind } from './parse.ts';
export { isDataMeasured, replayEventLog, verifyEventLog, type ReplayHash } from './replay.ts';
