/**
 * Phases of an init or of a start, and the durable log of their events. Workers report through
 * `PhaseReporter`; the init job streams the events of `PhaseLog` to the owner. The log survives a restart of
 * the agent.
 */
export { FileEventStore } from './event-store.ts';
export type { PhaseEvent, RecordedEvent } from './phase-event.ts';
export { PhaseLog, type PhaseProgress, type PhaseReporter } from './phase-log.ts';
