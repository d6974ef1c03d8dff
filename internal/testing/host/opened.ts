let parts = new AsyncDisposableStack();

/** Registers a part that `closeOpened()` closes. */
export function opened<T extends Disposable | AsyncDisposable>(part: T): T {
  return parts.use(part);
}

/** Closes everything that a test has opened, the last part first. For `afterEach`. */
export async function closeOpened(): Promise<void> {
  const closing = parts;
  parts = new AsyncDisposableStack();
  await closing.disposeAsync();
}
