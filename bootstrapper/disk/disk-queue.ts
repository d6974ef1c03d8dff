/**
 * Runs work on the record of an open disk one after the other: an approval and a move of the cluster share both write the next
 * record.
 */
export class DiskQueue {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  run<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const running = this.#last.then(work).finally(() => (this.#waiting -= 1));
    this.#last = running.catch(() => undefined);
    return running;
  }

  /** Whether work runs or waits. */
  get isBusy(): boolean {
    return this.#waiting > 0;
  }
}
