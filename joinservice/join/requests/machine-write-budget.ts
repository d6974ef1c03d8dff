import type { Clock } from '../../../internal/clock/index.ts';

/**
 * Maximum number of writes that one machine may cause in a period. Each join attempt of a machine that was
 * reset needs one or two writes.
 */
const MAX_WRITES = 16;
const PERIOD_MS = 10 * 60_000;
/** Maximum number of machines whose writes are counted. Each of them was admitted by a policy. */
const MAX_MACHINES = 8_192;

/**
 * Limits what each machine that a policy admits can cause this node to write. Such a machine does not count
 * against `WriteBudget`, and it could send requests with new keys or other claims as often as it likes.
 */
export class MachineWriteBudget {
  readonly #clock: Clock;
  readonly #taken = new Map<string, { readonly untilMs: number; count: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Uses one write of a machine's budget; false if the budget is used up. */
  tryTake(identity: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#taken.get(identity);
    if (known !== undefined && nowMs < known.untilMs) return ++known.count <= MAX_WRITES;
    // Deleted and added again, so that the most recent machine is last and the oldest can be dropped.
    this.#taken.delete(identity);
    this.#taken.set(identity, { untilMs: nowMs + PERIOD_MS, count: 1 });
    const [oldest] = this.#taken.keys();
    if (this.#taken.size > MAX_MACHINES && oldest !== undefined) this.#taken.delete(oldest);
    return true;
  }
}
