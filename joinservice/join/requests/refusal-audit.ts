import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { SourcePath } from '../../../internal/rpc/index.ts';
import type { WriteBudget } from './write-budget.ts';

/** A repeated refusal within this time is counted, not written. */
const REPEAT_MS = 60_000;
/** Maximum number of kinds of refusals that are counted. */
const MAX_KINDS = 1_024;

/** The refusal of a machine before any join decision, because of its evidence or its key. */
export interface Refusal {
  readonly method: string;
  /** The name of the machine in the audit log: its identity, or its address if the identity is unknown. */
  readonly subject: string;
  readonly code: string;
  readonly detail: Readonly<Record<string, unknown>>;
  /** The client address whose share of the budget the entry uses. */
  readonly source: string | SourcePath;
}

/**
 * Writes refusals to the log of requests: each kind (method, code, subject) at once, repetitions as a number in the next entry of the
 * kind. The budget bounds what unauthenticated machines can cause to be written.
 */
export class RefusalAudit {
  readonly #ports: {
    readonly requests: AuditLog;
    readonly clock: Clock;
    readonly budget: WriteBudget;
    readonly nodeId: string;
  };
  readonly #kinds = new Map<string, { writtenMs: number; repeated: number }>();

  /** @param ports `requests`: the log of requests; `nodeId`: the control plane that refuses */
  constructor(ports: {
    readonly requests: AuditLog;
    readonly clock: Clock;
    readonly budget: WriteBudget;
    readonly nodeId: string;
  }) {
    this.#ports = ports;
  }

  /** Writes or counts a refusal. */
  async write(refusal: Refusal, signal: AbortSignal): Promise<void> {
    const { requests, clock, budget, nodeId } = this.#ports;
    const { method, subject, code, detail, source } = refusal;
    const repeated = this.#repetitionsOf(`${method} ${code} ${subject}`);
    if (repeated === undefined || !budget.tryTake(source)) return;
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
    await requests.commit({ when: [], then: [], facts }, signal);
  }

  /**
   * How often this kind was refused since its last entry; undefined if the last entry is too recent to write
   * another one.
   */
  #repetitionsOf(kind: string): number | undefined {
    const nowMs = this.#ports.clock.monotonicMs();
    const known = this.#kinds.get(kind);
    if (known !== undefined && nowMs - known.writtenMs < REPEAT_MS) {
      known.repeated++;
      return undefined;
    }
    // Deleted and added again, so that the most recent kind is last and the oldest can be dropped.
    this.#kinds.delete(kind);
    this.#kinds.set(kind, { writtenMs: nowMs, repeated: 0 });
    const [oldest] = this.#kinds.keys();
    if (this.#kinds.size > MAX_KINDS && oldest !== undefined) this.#kinds.delete(oldest);
    return known?.repeated ?? 0;
  }
}
