/** Waits for nothing but the signal and rejects with its reason: the body of many a runnable under test. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  if (signal.aborted) reject(signal.reason as Error);
  else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  return promise;
}
