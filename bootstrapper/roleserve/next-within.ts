import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Watcher } from '../../internal/event/index.ts';

/** The next value, or undefined when there is none within this time. */
export async function nextWithin<T>(
  watcher: Watcher<T>,
  withinMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<T | undefined> {
  using either = childSignal(signal);
  const waits = [watcher.next(either.signal), clock.sleep(withinMs, either.signal)] as const;
  await Promise.race(waits).catch(() => undefined);
  either.abort();
  const [next] = await Promise.allSettled(waits);
  signal.throwIfAborted();
  return next.status === 'fulfilled' ? next.value : undefined;
}
