import { childSignal } from '../../internal/cleanup/index.ts';

/** A long-running task that starts again when its certificates are renewed. */
export class RestartableTask {
  #cancel: (() => void) | undefined;

  /** Starts the running task again; does nothing when none runs. */
  restart(): void {
    this.#cancel?.();
  }

  /** Runs the task; resolves to the result of its last start. One task at a time. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      using attempt = childSignal(signal);
      this.#cancel = () => attempt.abort(new Error('certificates renewed'));
      try {
        return await work(attempt.signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!attempt.signal.aborted) throw error;
      } finally {
        this.#cancel = undefined;
      }
    }
  }
}
