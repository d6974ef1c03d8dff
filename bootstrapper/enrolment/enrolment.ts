import { type CodedError, findCoded } from '../../internal/errors/index.ts';
import { EventValue, when, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { EnrolmentError } from './errors.ts';
import { isTerminal, TRANSITIONS, type EnrolmentState, type TransientState } from './states.ts';

export type EnrolmentStatus<M> =
  | { readonly state: TransientState }
  | { readonly state: 'Running'; readonly membership: M }
  | { readonly state: 'Failed'; readonly reason: CodedError };

/** What a state's handler hands on. */
export type Transition<M> =
  | { readonly to: 'CreatingCluster' | 'Joining' | 'Resuming' }
  | { readonly to: 'Running'; readonly membership: M };

export type EnrolmentHandlers<M> = Readonly<
  Record<TransientState, (signal: AbortSignal) => Promise<Transition<M>>>
>;

/**
 * The machine's way to membership: one run per process, every move from one table. Any error of a handler ends in
 * Failed, and everyone who waits learns the end, whether they asked before or after.
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

  /** The membership, or the reason of the failure as a rejection; the signal only ends this wait. */
  async finished(signal: AbortSignal): Promise<M> {
    const end = await when(this.#status, ({ state }) => isTerminal(state), signal);
    if (end.state === 'Running') return end.membership;
    if (end.state === 'Failed') throw end.reason;
    throw new EnrolmentError('enrolment-stuck', `waiting for the enrolment: it ended in ${end.state}`);
  }

  /** Runs to a terminal state. Rejects only when the signal fired or when it is called again. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#started)
      throw new EnrolmentError('enrolment-run-twice', 'enrolling: it has run in this process before');
    this.#started = true;
    for (let state: EnrolmentState = 'New'; !isTerminal(state);) {
      state = await this.#step(state, signal);
    }
  }

  async #step(from: TransientState, signal: AbortSignal): Promise<EnrolmentState> {
    try {
      const move = (await this.#handlers[from](signal)) as Transition<M> | undefined;
      if (move === undefined || (move.to as string) === from) {
        throw new EnrolmentError('enrolment-stuck', `enrolling: ${from} ended without moving on`);
      }
      if (!TRANSITIONS[from].includes(move.to)) {
        throw new EnrolmentError(
          'enrolment-illegal-transition',
          `enrolling: ${from} → ${move.to} is not allowed`,
        );
      }
      this.#log.info('enrolment moves on', { from, to: move.to });
      this.#status.set(
        move.to === 'Running' ? { state: 'Running', membership: move.membership } : { state: move.to },
      );
      return move.to;
    } catch (error) {
      signal.throwIfAborted();
      const reason =
        findCoded(error) ??
        new EnrolmentError('enrolment-step-failed', `enrolling: ${from}`, { cause: error });
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
