/**
 * Firmware event logs: what was extended into which register, in order, and the firmware's description of it.
 *
 *   bytes ──parseEventLog──▶ EventLog ──verifyEventLog──▶ replays to the quoted registers
 *                                └──isDataMeasured──▶ whether the data of an event is proved
 *
 * Reads the logs of TPMs (PCRs) and of TDs (CCEL, RTMRs). A log is unsigned. Its digests are proved after a replay to signed
 * registers, and the data of an event only if `isDataMeasured()`.
 */
export { EventlogError, eventlogErrors } from './errors.ts';
export { eventTypeName } from './event-types.ts';
export { parseEventLog, type LogEvent } from './parse.ts';
export { isDataMeasured, replayEventLog, verifyEventLog } from './replay.ts';
