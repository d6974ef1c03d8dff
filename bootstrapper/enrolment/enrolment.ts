import { type CodedError, findCoded } from '../../internal/errors/index.ts';
import { EventValue, when, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { EnrolmentError } from './errors.ts';

/** State of the enrolment of a machine. */
export type EnrolmentState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming' | 'Running' | 'Failed';

/** All allowed transitions. Any other one fails the enrolment. */
export const TRANSITIONS: Readonly<Record<EnrolmentState, readonly EnrolmentState[]>> = {
  New: ['CreatingCluster', 'Joining', 'Resuming', 'Failed'],
  CreatingCluster: ['Running', 'Failed'],
  Joining: ['Running', 'Failed'],
  Resuming: ['Running', 'Failed'],
  Running: [],
  Failed: [],
};

/** A state that is not final. */
export type TransientState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming';

/** The state of the enrolment, with its result. */
export type EnrolmentStatus<M> =
  | { readonly state: TransientState }
  | { readonly state: 'Running'; readonly membership: M }
  | { readonly state: 'Failed'; readonly reason: CodedError };

/** The result of a state's handler: the next state. */
export type Transition<M> =
  | { readonly to: 'CreatingCluster' | 'Joining' | 'Resuming' }
  | { readonly to: 'Running'; readonly membership: M };

/** The work of each state that is not final. */
export type EnrolmentHandlers<M> = Readonly<
  Record<TransientState, (signal: AbortSignal) => Promise<Transition<M>>>
>;

/**
 * The state machine of enrolment. It runs once in a process, and allows the transitions of one table. An
 * error of a handler leads to Failed. `finished` gives the result to callers before and after the end.
 */
export class Enrolment<M> {
  readonly #handlers: EnrolmentHandlers<M>;
  readonly #log: Logger;
  readonly #status = new EventValue<EnrolmentStatus<M>>();
  #started = false;

  constructor(options: { readonly handlers: EnrolmentHandlers<M>; readonly log: Logger }) {
    this.#handlers = options.handlers;
    this.#log = options.log;
    this.#status.set({ state: 'New' });
  }

  get status(): Readable<EnrolmentStatus<M>> {
    return this.#status;
  }

  /** Resolves to the membership; rejects with the reason of a failure. The signal only ends this wait. */
  async finished(signal: AbortSignal): Promise<M> {
    const end = await when(this.#status, ({ state }) => isTerminal(state), signal);
    if (end.state === 'Running') return end.membership;
    if (end.state === 'Failed') throw end.reason;
    throw new EnrolmentError('enrolment-stuck', `enrolment ended in state ${end.state}`);
  }

  /** Runs to a final state. Rejects only when the signal fires or on a second call. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#started)
      throw new EnrolmentError('enrolment-run-twice', 'enrolment has already run in this process');
    this.#started = true;
    for (let state: EnrolmentState = 'New'; !isTerminal(state);) {
      state = await this.#step(state, signal);
    }
  }

  async #step(from: TransientState, signal: AbortSignal): Promise<EnrolmentState> {
    try {
      const next = (await this.#handlers[from](signal)) as Transition<M> | undefined;
      if (next === undefined || (next.to as string) === from) {
        throw new EnrolmentError('enrolment-stuck', `state ${from} ended without a transition`);
      }
      if (!TRANSITIONS[from].includes(next.to)) {
        throw new EnrolmentError(
          'enrolment-illegal-transition',
          `transition ${from} → ${next.to} not allowed`,
        );
      }
      this.#log.info('enrolment state changed', { from, to: next.to });
      this.#status.set(
        next.to === 'Running' ? { state: 'Running', membership: next.membership } : { state: next.to },
      );
      return next.to;
    } catch (error) {
      signal.throwIfAborted();
      const reason =
        findCoded(error) ??
        new EnrolmentError('enrolment-step-failed', `enrolment failed in state ${from}`, { cause: error });
      this.#log.error('enrolment failed', {
        from,
        to: 'Failed',
        code: reason.code,
        retryable: reason.retryable,
        error,
      });
      this.#status.set({ state: 'Failed', reason });
      return 'Failed';
    }
  }
}

/** Whether a state is final. */
function isTerminal(state: EnrolmentState): state is 'Running' | 'Failed' {
  return TRANSITIONS[state].length === 0;
}
