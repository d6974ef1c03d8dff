import type { OutputStream } from './streams.ts';

/** Why what was written to standard output will not be read. */
export interface OutputLoss {
  /** `closed`: the reader has ended or the terminal was closed. `failed`: a file could not be written. */
  readonly kind: 'closed' | 'failed';
  readonly error: Error;
}

/** Standard output as the app needs it at its end. */
export interface Output {
  /** Fires when nobody reads standard output any more; its reason is the error of the write. */
  readonly closed: AbortSignal;
  /** Waits until everything has been written, however slow the reader is. Answers what was lost. */
  flush(): Promise<OutputLoss | undefined>;
}

/** EIO is what a terminal says that was closed. */
const CLOSED: readonly (string | undefined)[] = ['EPIPE', 'EIO', 'ECONNRESET', 'ERR_STREAM_DESTROYED'];

/**
 * The standard streams of this process. Node writes to pipes in the background: a process that ends by `process.exit` before
 * that is done cuts its output after what fits into the pipe. Lost talk on `err` is no failure.
 */
export class StandardOutput implements Output {
  readonly #out: OutputStream;
  readonly #err: OutputStream;
  readonly #closing = new AbortController();
  #loss: OutputLoss | undefined;

  constructor({ out, err }: { readonly out: OutputStream; readonly err: OutputStream }) {
    this.#out = out;
    this.#err = err;
    out.on('error', (error: NodeJS.ErrnoException) => this.#onLoss(error));
    err.on('error', () => undefined);
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  async flush(): Promise<OutputLoss | undefined> {
    const [error] = await Promise.all([flushed(this.#out), flushed(this.#err)]);
    if (error !== undefined) this.#onLoss(error); // the stream's own event comes later
    return this.#loss;
  }

  #onLoss(error: NodeJS.ErrnoException): void {
    const kind = CLOSED.includes(error.code) ? 'closed' : 'failed';
    this.#loss ??= { kind, error };
    if (kind === 'closed') this.#closing.abort(error);
  }
}

/** The callback of a write comes after those of all writes before it, also when they fail. */
function flushed(stream: OutputStream): Promise<Error | undefined> {
  return new Promise((resolve) => void stream.write('', (error) => resolve(error ?? undefined)));
}
