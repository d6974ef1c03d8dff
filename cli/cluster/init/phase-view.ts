import { formatDuration } from '../../../internal/clock/index.ts';
import type { InitEvent } from '../../../initproto/gen/init_pb.js';
import { PHASES } from '../../../initproto/phases.ts';
import { printable } from '../../../internal/printable/index.ts';
import { OpenStep, type Host, type StepProgress } from '../../host/index.ts';

/** The title of a phase. Phases of a newer agent, which this program does not know, are shown by name. */
const TITLES: ReadonlyMap<string, string> = new Map(PHASES.map(({ name, title }) => [name, title]));

function titleOf(phase: string): string {
  return TITLES.get(phase) ?? printable(phase);
}

/** Shows the phases of the init on the machine as steps. Events start and end steps; several may run at once. */
export class PhaseView {
  readonly #host: Host;
  readonly #running = new Map<string, OpenStep>();
  /** Shown while the connection is lost and no phase runs. */
  #reconnecting: OpenStep | undefined;
  readonly #finished = new Set<string>();

  constructor(host: Host) {
    this.#host = host;
  }

  show({ event, timeMs }: InitEvent): void {
    void this.#reconnecting?.end();
    this.#reconnecting = undefined;
    switch (event.case) {
      case 'phaseStarted':
        return this.#start(event.value.phase);
      case 'phaseFinished':
        return this.#finish(event.value.phase, event.value.already);
      case 'progress': {
        const { phase, text, lastError, done, total, sinceMs } = event.value;
        const waited =
          sinceMs > 0n && timeMs > sinceMs ? `, ${formatDuration(Number(timeMs - sinceMs))}` : '';
        const failure = lastError === '' ? '' : `; last error: ${lastError}`;
        const share = { of: Number(total), value: Number(done), unit: 'steps' as const };
        return this.#update(phase, printable(`${text}${waited}${failure}`), total > 0n ? share : undefined);
      }
      case 'heartbeat': {
        const waited = formatDuration(Math.max(0, Number(timeMs - event.value.sinceMs)));
        for (const phase of this.#running.keys())
          this.#update(phase, printable(`${event.value.waitingFor}, ${waited}`));
        return;
      }
      case 'log':
        if (event.value.level !== 'error' && event.value.level !== 'warn') return;
        return this.#host.warn('init-node-says', printable(`${event.value.path}: ${event.value.message}`));
      case 'result':
      case 'failure':
      case undefined:
        return;
    }
  }

  /** Shows the state of the connection on every running phase. If none runs, shows it as a separate step until the next event. */
  note(text: string): void {
    for (const phase of this.#running.keys()) this.#update(phase, text);
    if (this.#running.size > 0) return;
    this.#reconnecting ??= new OpenStep(this.#host, 'init-attach', 'Reconnecting to the machine');
    this.#reconnecting.update(text);
  }

  /** Ends all steps that are still running. */
  async close(error?: unknown): Promise<void> {
    const running = [...this.#running.values()];
    if (this.#reconnecting !== undefined) running.push(this.#reconnecting);
    this.#running.clear();
    await Promise.all(running.map((step) => step.end(error)));
  }

  #start(phase: string): void {
    if (this.#running.has(phase)) return this.#update(phase, 'retrying');
    this.#running.set(phase, new OpenStep(this.#host, `init-phase-${phase}`, titleOf(phase)));
  }

  #finish(phase: string, already: boolean): void {
    const running = this.#running.get(phase);
    this.#running.delete(phase);
    void running?.end();
    if (already && !this.#finished.has(phase)) {
      this.#host.say('init-phase-already', `${titleOf(phase)}: already done`, {
        phase,
      });
    }
    this.#finished.add(phase);
  }

  #update(phase: string, text: string, share?: Parameters<StepProgress['update']>[1]): void {
    this.#running.get(phase)?.update(text, share);
  }
}
