/** Resolves in the next iteration of the event loop, after pending socket I/O. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
