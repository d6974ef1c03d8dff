import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { PhaseName } from '../../initproto/phases.ts';
import { failedEvent } from './failed-event.ts';
import type { FileEventStore } from './event-store.ts';
import type { PhaseEvent, RecordedEvent } from './phase-event.ts';

/** How a running phase reports its progress. */
export interface PhaseProgress {
  /** Reports what the phase does or waits for now. The same text again only updates the last error. */
  report(
    text: string,
    more?: { readonly lastError?: unknown; readonly done?: number; readonly total?: number },
  ): void;
  /** Reports that an earlier run has already done the work, and that its result is valid. */
  reportUnchanged(): void;
}

/** Workers report their phases to this interface. */
export interface PhaseReporter {
  run<T>(phase: PhaseName, work: (progress: PhaseProgress) => Promise<T>): Promise<T>;
}

/**
 * The log of all phases. Readers follow it from any sequence number. An event is on disk before a reader sees it, so that no
 * event disappears after a crash.
 */
export class PhaseLog implements PhaseReporter {
  readonly #ports: PhaseLogPorts;
  readonly #clock: Clock;
  readonly #events: RecordedEvent[] = [];
  readonly #length = new EventValue<number>();
  /** Events that could not be written; they are written with the next event, in order, so that the log has no gap. */
  readonly #unsaved: RecordedEvent[] = [];
  #writing: Promise<void> = Promise.resolve();
  #next = 1;

  private constructor(ports: PhaseLogPorts) {
    this.#ports = ports;
    this.#clock = ports.clock;
  }

  /** Loads the events of earlier runs of the agent. */
  static async open(ports: PhaseLogPorts): Promise<PhaseLog> {
    const phases = new PhaseLog(ports);
    phases.#events.push(...(await ports.store.load()));
    phases.#next = (phases.#events.at(-1)?.sequence ?? 0) + 1;
    phases.#length.set(phases.#events.length);
    return phases;
  }

  /** Number of events; it grows when an event is durable. */
  get length(): Readable<number> {
    return this.#length;
  }

  /** The events after this sequence number, oldest first. */
  after(sequence: number): readonly RecordedEvent[] {
    return this.#events.filter((event) => event.sequence > sequence);
  }

  async run<T>(phase: PhaseName, work: (progress: PhaseProgress) => Promise<T>): Promise<T> {
    const startMs = this.#clock.monotonicMs();
    let isUnchanged = false;
    this.#report({ kind: 'started', phase });
    try {
      const result = await work({
        report: this.#speaker(phase),
        reportUnchanged: () => void (isUnchanged = true),
      });
      const durationMs = Math.round(this.#clock.monotonicMs() - startMs);
      this.#report({ kind: 'finished', phase, durationMs, already: isUnchanged });
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
    const { log } = this.#ports;
    log[kind === 'failed' ? 'error' : 'info'](`phase ${kind}`, facts);
    this.#writing = this.#writing
      .then(() => this.#save(recorded))
      .catch((error: unknown) => log.warn('phase event not saved', { error }))
      .then(() => {
        this.#events.push(recorded);
        this.#length.set(this.#events.length);
      });
  }

  async #save(recorded: RecordedEvent): Promise<void> {
    this.#unsaved.push(recorded);
    for (let [first] = this.#unsaved; first !== undefined; [first] = this.#unsaved) {
      await this.#ports.store.append(first);
      this.#unsaved.shift();
    }
  }
}

interface PhaseLogPorts {
  readonly store: Pick<FileEventStore, 'load' | 'append'>;
  readonly clock: Clock;
  readonly log: Logger;
}
