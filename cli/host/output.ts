import type { OutputStream } from './host.ts';

/** Why output to standard output was lost. */
export interface OutputLoss {
  /** `closed`: the reader exited or the terminal was closed. `failed`: a file could not be written. */
  readonly kind: 'closed' | 'failed';
  readonly error: Error;
}

/** State of standard output. */
export interface Output {
  /** Fires when standard output was closed; its reason is the error of the write. */
  readonly closed: AbortSignal;
  /** Waits until everything is written, without a time limit. Returns what was lost. */
  flush(): Promise<OutputLoss | undefined>;
}

/** EIO is the error of a closed terminal. */
const CLOSED: readonly (string | undefined)[] = ['EPIPE', 'EIO', 'ECONNRESET', 'ERR_STREAM_DESTROYED'];

/**
 * The standard streams of this process. Node writes to pipes asynchronously, so `process.exit` would cut off output that does
 * not fit into the pipe. Lost messages on `err` are ignored.
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
    if (error !== undefined) this.#onLoss(error); // needed here because the 'error' event comes later than this callback
    return this.#loss;
  }

  #onLoss(error: NodeJS.ErrnoException): void {
    const kind = CLOSED.includes(error.code) ? 'closed' : 'failed';
    this.#loss ??= { kind, error };
    if (kind === 'closed') this.#closing.abort(error);
  }
}

/** Callbacks of writes come in order, also when writes fail. */
function flushed(stream: OutputStream): Promise<Error | undefined> {
  return new Promise((resolve) => void stream.write('', (error) => resolve(error ?? undefined)));
}
