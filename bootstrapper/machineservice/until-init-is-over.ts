import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';

/** An owner whose init was on its way when a ticket came first is told so; behind a closed port it would ask for minutes. */
const TELL_MS = 10_000;

/**
 * Until nobody has anything to ask at the Init port any more: the owner has acknowledged, however long that takes (nowhere
 * else is a result to be had that nobody has signed), or a ticket has had the lock of this machine for a moment. The ways
 * that were not taken are waited for no longer.
 */
export async function untilInitIsOver(
  { job, enrolment, clock }: InitWaits,
  signal: AbortSignal,
): Promise<void> {
  using waiting = childSignal(signal);
  const ticketed = async (): Promise<void> => {
    await when(enrolment.status, ({ state }) => state === 'Joining', waiting.signal);
    await clock.sleep(TELL_MS, waiting.signal);
  };
  const ends: readonly Promise<unknown>[] = [when(job.acknowledged, () => true, waiting.signal), ticketed()];
  try {
    await Promise.race(ends);
  } finally {
    waiting.abort(new Error('the init is over'));
    await Promise.allSettled(ends);
  }
}

export interface InitWaits {
  readonly job: { readonly acknowledged: Readable<unknown> };
  readonly enrolment: { readonly status: Readable<{ readonly state: string }> };
  readonly clock: Clock;
}
