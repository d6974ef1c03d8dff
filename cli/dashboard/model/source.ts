import { printable } from '../../../internal/printable/index.ts';
import type { Failure, Reading } from './observations.ts';

/** The codes by which a cluster refuses a call to this caller, whatever it asks about. */
const REFUSALS: readonly string[] = [
  'curator-denied',
  'curator-not-member',
  'curator-operator-unsigned',
  'kube-refused',
];

/** Whether an error says that the caller may not see what it asked for. */
export function isRefusal({ codes }: Pick<FailedPart, 'codes'>): boolean {
  return codes.some((code) => REFUSALS.includes(code));
}

/** An error as `readPart()` returns it. */
interface FailedPart {
  readonly error: string;
  readonly codes: readonly string[];
}

/** The last value of one source, and its failure. */
export class Source<T> {
  #reading: Reading<T> = {};

  get reading(): Reading<T> {
    return this.#reading;
  }

  /** Sets a new value, which ends the failure. */
  set(value: T, nowMs: number): void {
    this.#reading = { value, readMs: nowMs };
  }

  /**
   * Keeps the last value beside the failure, unless the cluster refuses the source: a caller whose role was lowered, or who was
   * removed, must not see any longer what the former role allowed.
   */
  fail(failed: FailedPart, nowMs: number): void {
    const isRefused = isRefusal(failed);
    const failure: Failure = {
      text: printable(failed.error),
      isRefused,
      isQuorumLost: failed.codes.includes('cluster-quorum-lost'),
      sinceMs: this.#reading.failure?.sinceMs ?? nowMs,
    };
    const { value, readMs } = this.#reading;
    this.#reading =
      isRefused || value === undefined || readMs === undefined ? { failure } : { value, readMs, failure };
  }
}
