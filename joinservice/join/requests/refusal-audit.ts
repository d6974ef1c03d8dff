import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { WriteBudget } from './write-budget.ts';

/** The same refusal again within this time is counted and not written. */
const SAME_MS = 60_000;
/** Kinds of refusals that are told apart at a time. */
const MAX_KINDS = 1_024;

/** A machine that was refused outside of a decision: bad evidence, a wrong key. */
export interface Refusal {
  readonly method: string;
  /** What is known of it, at least its address. */
  readonly subject: string;
  readonly code: string;
  readonly detail: Readonly<Record<string, unknown>>;
  /** Where it came from. */
  readonly address: string;
}

/**
 * Writes refusals into the audit: each kind (who, what, why) at once, its repetitions as a number in the next entry of the
 * kind. What all strangers together can cause to be written is the budget.
 */
export class RefusalAudit {
  readonly #ports: {
    readonly audit: AuditLog;
    readonly clock: Clock;
    readonly budget: WriteBudget;
    readonly nodeId: string;
  };
  readonly #kinds = new Map<string, { writtenMs: number; repeated: number }>();

  /** @param ports `nodeId`: who refuses, for the audit. */
  constructor(ports: {
    readonly audit: AuditLog;
    readonly clock: Clock;
    readonly budget: WriteBudget;
    readonly nodeId: string;
  }) {
    this.#ports = ports;
  }

  async write(refusal: Refusal, signal: AbortSignal): Promise<void> {
    const { audit, clock, budget, nodeId } = this.#ports;
    const { method, subject, code, detail, address } = refusal;
    const repeated = this.#repetitionsOf(`${method} ${code} ${subject}`);
    if (repeated === undefined || !budget.tryTake(address)) return;
    const dropped = budget.takeDropped();
    const facts = {
      timeMs: clock.nowMs(),
      caller: `joinservice:${nodeId}`,
      method,
      subject,
      detail: {
        verdict: 'refused',
        code,
        ...detail,
        ...(repeated === 0 ? {} : { repeated }),
        ...(dropped === 0 ? {} : { alsoNotWritten: dropped }),
      },
    };
    await audit.commit({ when: [], then: [], facts }, signal);
  }

  /** How often this kind was refused since its last entry; undefined when that was a moment ago. */
  #repetitionsOf(kind: string): number | undefined {
    const nowMs = this.#ports.clock.monotonicMs();
    const known = this.#kinds.get(kind);
    if (known !== undefined && nowMs - known.writtenMs < SAME_MS) {
      known.repeated++;
      return undefined;
    }
    this.#kinds.delete(kind); // the newest one is last, and the oldest one goes
    this.#kinds.set(kind, { writtenMs: nowMs, repeated: 0 });
    const [oldest] = this.#kinds.keys();
    if (this.#kinds.size > MAX_KINDS && oldest !== undefined) this.#kinds.delete(oldest);
    return known?.repeated ?? 0;
  }
}
