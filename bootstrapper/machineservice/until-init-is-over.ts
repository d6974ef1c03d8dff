import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';

/**
 * Time for which the port stays open after a join took the node lock. An owner whose init arrives late gets
 * an error at once; at a closed port, the CLI would retry for minutes.
 */
const REFUSE_MS = 10_000;

/**
 * Resolves when the init port is no longer needed. Either the owner has acknowledged the result. The port waits for
 * that without a limit, because no other node serves an unacknowledged result. Or a join locked this machine
 * `REFUSE_MS` ago.
 */
export async function untilInitIsOver(
  { job, enrolment, clock }: InitWaits,
  signal: AbortSignal,
): Promise<void> {
  using waiting = childSignal(signal);
  const joined = async (): Promise<void> => {
    await when(enrolment.status, ({ state }) => state === 'Joining', waiting.signal);
    await clock.sleep(REFUSE_MS, waiting.signal);
  };
  const ends: readonly Promise<unknown>[] = [when(job.acknowledged, () => true, waiting.signal), joined()];
  try {
    await Promise.race(ends);
  } finally {
    waiting.abort(new Error('the init port is no longer needed'));
    await Promise.allSettled(ends);
  }
}

/** Ports (injected dependencies) of `untilInitIsOver()`. */
export interface InitWaits {
  readonly job: { readonly acknowledged: Readable<unknown> };
  readonly enrolment: { readonly status: Readable<{ readonly state: string }> };
  readonly clock: Clock;
}
