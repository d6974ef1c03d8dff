/**
 * Runs work on the record of an open disk one after the other: an approval and a move of the cluster share both write the next
 * record.
 */
export class DiskQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const running = this.#last.then(work);
    this.#last = running.catch(() => undefined);
    return running;
  }
}
