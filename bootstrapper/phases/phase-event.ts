import type { PhaseName } from '../../initproto/phases.ts';

/**
 * One event of a phase, in the form of the Init contract. It is kept on disk as JSON and streamed to the
 * owner.
 */
export type PhaseEvent =
  | { readonly kind: 'started'; readonly phase: PhaseName }
  | {
      readonly kind: 'finished';
      readonly phase: PhaseName;
      readonly durationMs: number;
      readonly already: boolean;
    }
  | {
      readonly kind: 'progress';
      readonly phase: PhaseName;
      readonly text: string;
      readonly sinceMs: number;
      readonly lastError?: string;
      readonly done?: number;
      readonly total?: number;
    }
  | {
      readonly kind: 'failed';
      readonly phase: PhaseName;
      readonly code: string;
      readonly message: string;
      readonly fix: string;
      readonly retryable: boolean;
    };

/** An event with its position in the log. */
export interface RecordedEvent {
  /** 1, 2, 3 … without gaps, even over restarts of the agent. */
  readonly sequence: number;
  readonly timeMs: number;
  readonly event: PhaseEvent;
}
