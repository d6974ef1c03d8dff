import { formatDuration, type Clock } from '../clock/index.ts';

/** A derived signal that can be aborted alone and that detaches from its parent when it is disposed. */
export interface ChildSignal extends Disposable {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

/**
 * Derives a child of a long-lived signal. `AbortSignal.any` leaks listeners on long-lived parents (nodejs/node#54614,
 * #55351); this child detaches when it is disposed.
 */
export function childSignal(parent: AbortSignal): ChildSignal {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(parent.reason);
  if (parent.aborted) onAbort();
  else parent.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    [Symbol.dispose]: () => parent.removeEventListener('abort', onAbort),
  };
}

/**
 * Runs `work` with a child signal, and detaches the child from its parent when `work` has ended. For sockets of Node:
 * they never remove their listener from the signal that `connect` gets (lib/net.js, addClientAbortSignalOption), so that a signal that lives
 * as long as the program would keep each of them, 4 kB each. A request of node:http removes its listener itself.
 */
export async function withChildSignal<T>(
  parent: AbortSignal,
  work: (child: AbortSignal) => Promise<T>,
): Promise<T> {
  using child = childSignal(parent);
  return await work(child.signal);
}

/**
 * Rejects with the signal's reason when the signal fires, or at once if it has fired. A listener that is
 * added after the event would wait forever.
 */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** Thrown as the abort reason of `withTimeout`. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * Runs `work` with a child signal that is aborted with a TimeoutError after `ms`. Rejects as soon as the
 * time is up or the signal fires, even if `work` ignores its signal. `what` names the work in the error.
 */
export async function withTimeout<T>(
  options: {
    readonly what: string;
    readonly ms: number;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  options.signal.throwIfAborted();
  using child = childSignal(options.signal);
  using timer = childSignal(options.signal);
  const timeout = options.clock.sleep(options.ms, timer.signal).then(
    () => child.abort(new TimeoutError(`${options.what}: timed out after ${formatDuration(options.ms)}`)),
    () => undefined,
  );
  try {
    return await Promise.race([work(child.signal), untilAborted(child.signal)]);
  } finally {
    timer.abort();
    await timeout;
  }
}

/** Like `withTimeout`, but returns whether `work` ended in time, instead of its result. */
export async function isDoneWithin(
  options: Parameters<typeof withTimeout>[0],
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<boolean> {
  try {
    await withTimeout(options, work);
    return true;
  } catch (error) {
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}
