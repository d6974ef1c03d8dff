import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { PhaseName } from '../../initproto/phases.ts';
import { failedEvent } from './failed-event.ts';
import type { PhaseEvent } from './phase-event.ts';

export interface RecordedEvent {
  /** 1, 2, 3 … without gaps over all lives of the agent. */
  readonly sequence: number;
  readonly timeMs: number;
  readonly event: PhaseEvent;
}

/** What a running phase can say. */
export interface PhaseProgress {
  /** What is being done or waited for now. The same text again only refreshes the last error. */
  report(
    text: string,
    more?: { readonly lastError?: unknown; readonly done?: number; readonly total?: number },
  ): void;
  /** The work had been done by an earlier run and was found in order. */
  reportUnchanged(): void;
}

/** Where workers report the phases they run. */
export interface PhaseReporter {
  run<T>(phase: PhaseName, work: (progress: PhaseProgress) => Promise<T>): Promise<T>;
}

/** Keeps events durable; a torn last line of a crash is dropped when it is read. */
export interface EventStore {
  load(): Promise<readonly RecordedEvent[]>;
  append(event: RecordedEvent): Promise<void>;
}

/**
 * The one record of what the phases did. Writers report, readers follow from any sequence number; what was reported
 * is on disk before anyone sees it, so that no reader ever has to unlearn an event.
 */
export class PhaseLog implements PhaseReporter {
  readonly #store: EventStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #events: RecordedEvent[] = [];
  readonly #length = new EventValue<number>();
  /** What the disk has not taken yet; it gets them with the next event, in order, so that the record has no gap. */
  readonly #unkept: RecordedEvent[] = [];
  #writing: Promise<void> = Promise.resolve();
  #next = 1;

  private constructor(ports: PhaseLogPorts) {
    this.#store = ports.store;
    this.#clock = ports.clock;
    this.#log = ports.log;
  }

  static async open(ports: PhaseLogPorts): Promise<PhaseLog> {
    const phases = new PhaseLog(ports);
    phases.#events.push(...(await ports.store.load()));
    phases.#next = (phases.#events.at(-1)?.sequence ?? 0) + 1;
    phases.#length.set(phases.#events.length);
    return phases;
  }

  /** How many events there are; set after each one is durable. */
  get length(): Readable<number> {
    return this.#length;
  }

  /** Events after a sequence number, oldest first. */
  after(sequence: number): readonly RecordedEvent[] {
    return this.#events.filter((event) => event.sequence > sequence);
  }

  async run<T>(phase: PhaseName, work: (progress: PhaseProgress) => Promise<T>): Promise<T> {
    const startMs = this.#clock.monotonicMs();
    let already = false;
    this.#report({ kind: 'started', phase });
    try {
      const result = await work({
        report: this.#speaker(phase),
        reportUnchanged: () => void (already = true),
      });
      this.#report({
        kind: 'finished',
        phase,
        durationMs: Math.round(this.#clock.monotonicMs() - startMs),
        already,
      });
      await this.#writing;
      return result;
    } catch (error) {
      this.#report(failedEvent(phase, error));
      await this.#writing;
      throw error;
    }
  }

  #speaker(phase: PhaseName): PhaseProgress['report'] {
    let last = { text: '', lastError: '', sinceMs: 0, done: -1 };
    return (text, more = {}) => {
      const lastError = more.lastError === undefined ? '' : describeError(more.lastError);
      const done = more.done ?? -1;
      if (text === last.text && lastError === last.lastError && done === last.done) return;
      last = { text, lastError, done, sinceMs: text === last.text ? last.sinceMs : this.#clock.nowMs() };
      this.#report({
        kind: 'progress',
        phase,
        text,
        sinceMs: last.sinceMs,
        ...(lastError === '' ? {} : { lastError }),
        ...(more.done === undefined ? {} : { done: more.done }),
        ...(more.total === undefined ? {} : { total: more.total }),
      });
    };
  }

  #report(event: PhaseEvent): void {
    const recorded = { sequence: this.#next++, timeMs: this.#clock.nowMs(), event };
    const { kind, ...facts } = event;
    this.#log[kind === 'failed' ? 'error' : 'info'](`phase ${kind}`, facts);
    this.#writing = this.#writing
      .then(() => this.#keep(recorded))
      .catch((error: unknown) => this.#log.warn('a phase event could not be kept', { error }))
      .then(() => {
        this.#events.push(recorded);
        this.#length.set(this.#events.length);
      });
  }

  async #keep(recorded: RecordedEvent): Promise<void> {
    this.#unkept.push(recorded);
    for (let [first] = this.#unkept; first !== undefined; [first] = this.#unkept) {
      await this.#store.append(first);
      this.#unkept.shift();
    }
  }
}

interface PhaseLogPorts {
  readonly store: EventStore;
  readonly clock: Clock;
  readonly log: Logger;
}
