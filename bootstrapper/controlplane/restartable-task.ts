import { childSignal } from '../../internal/cleanup/index.ts';

/** Work that goes on for long with certificates that it read when it began: it begins anew when there are others. */
export class RestartableTask {
  #endTurn: (() => void) | undefined;

  /** There are other certificates. Nothing where nobody works. */
  restart(): void {
    this.#endTurn?.();
  }

  /** What the last turn of the work comes to; one at a time. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      using turn = childSignal(signal);
      this.#endTurn = () => turn.abort(new Error('there are other certificates'));
      try {
        return await work(turn.signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!turn.signal.aborted) throw error;
      } finally {
        this.#endTurn = undefined;
      }
    }
  }
}
