/** Resolves in the next turn of the event loop, when what waits at sockets has been read and written. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
