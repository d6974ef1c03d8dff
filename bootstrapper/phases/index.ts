/**
 * The registry of phases and the durable record of what they did. Workers write through `PhaseReporter`; the init job
 * streams from `PhaseLog`; both survive the agent.
 */
export { PhasesError, phasesErrors, type PhasesErrorCode } from './errors.ts';
export { FileEventStore } from './event-store.ts';
export type { PhaseEvent } from './phase-event.ts';
export {
  PhaseLog,
  type EventStore,
  type PhaseProgress,
  type PhaseReporter,
  type RecordedEvent,
} from './phase-log.ts';
export { PHASES, type PhaseName } from '../../initproto/phases.ts';
