import type { Clock } from '../../../internal/clock/index.ts';

/** What one machine may cause to be written in a period: each try of a rack of reset machines is one or two. */
const MOST = 16;
const PERIOD_MS = 10 * 60_000;
/** Machines that are told apart; they are ones that a policy lets in. */
const MAX_MACHINES = 8_192;

/**
 * A machine that is let in without anybody's word costs no stranger's budget, and may show a new key or another wish as
 * often as it likes. This bounds what that makes this node write, machine by machine.
 */
export class MachineWriteBudget {
  readonly #clock: Clock;
  readonly #taken = new Map<string, { readonly untilMs: number; count: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  tryTake(identity: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#taken.get(identity);
    if (known !== undefined && nowMs < known.untilMs) return ++known.count <= MOST;
    this.#taken.delete(identity); // the newest is last, and the oldest goes
    this.#taken.set(identity, { untilMs: nowMs + PERIOD_MS, count: 1 });
    const [oldest] = this.#taken.keys();
    if (this.#taken.size > MAX_MACHINES && oldest !== undefined) this.#taken.delete(oldest);
    return true;
  }
}
