import type { Clock } from '../clock/index.ts';
import { listHandles, startup, TRANSIENT_HANDLES, LOADED_SESSIONS } from './commands/lifecycle.ts';
import { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { isUninitialized } from './response-codes.ts';
import type { TransportSource } from './transport.ts';

export interface TpmOptions {
  readonly source: TransportSource;
  readonly clock: Clock;
  /** Per command; see `ConnectionOptions`. */
  readonly commandTimeLimitMs?: number;
  /** Tasks that may wait. More are refused at once with `tpm-busy`. */
  readonly maxWaiting?: number;
}

const COMMAND_TIME_LIMIT_MS = 60_000;
const MAX_WAITING = 256;

/**
 * One TPM and its one queue. A task has the TPM to itself from its first to its last command; the connection is
 * opened for the first task, flushed of what a crashed predecessor left, and closed when nobody waits any more,
 * unless the device may be held open.
 */
export class Tpm implements AsyncDisposable {
  readonly #options: Required<TpmOptions>;
  #connection: TpmConnection | undefined;
  #tail: Promise<void> = Promise.resolve();
  #waiting = 0;
  #closed = false;

  constructor(options: TpmOptions) {
    this.#options = { commandTimeLimitMs: COMMAND_TIME_LIMIT_MS, maxWaiting: MAX_WAITING, ...options };
  }

  /** For messages: the path or address. */
  get address(): string {
    return this.#options.source.address;
  }

  /**
   * Runs `task` when its turn comes. Rejects as soon as the signal fires; a command that the TPM is working on
   * still runs to its end before the next task starts.
   */
  async use<T>(signal: AbortSignal, task: TpmTask<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#closed) throw new TpmError('tpm-unavailable', `using the TPM at ${this.address}: closed`);
    if (this.#waiting >= this.#options.maxWaiting) {
      throw new TpmError('tpm-busy', `using the TPM at ${this.address}: ${this.#waiting} tasks wait already`);
    }
    this.#waiting++;
    const turn = this.#tail.then(() => this.#run(signal, task));
    this.#tail = turn.then(ignore, ignore).then(() => this.#afterTurn());
    return raceAbort(turn, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#tail;
    await this.#disconnect();
  }

  async #run<T>(signal: AbortSignal, task: TpmTask<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#connection?.broken === true) await this.#disconnect();
    this.#connection ??= await this.#connect(signal);
    return task(this.#connection, signal);
  }

  /** Runs whatever became of the task. A connection that cannot be tidied is given up; the next one tidies. */
  async #afterTurn(): Promise<void> {
    this.#waiting--;
    const isIdle = this.#waiting === 0 && !this.#options.source.canStayOpen;
    try {
      if (!isIdle) await this.#connection?.endTask();
    } catch {
      return this.#disconnect();
    }
    if (isIdle) await this.#disconnect();
  }

  async #connect(signal: AbortSignal): Promise<TpmConnection> {
    const transport = await this.#options.source.open(signal);
    const { clock, commandTimeLimitMs } = this.#options;
    const connection = new TpmConnection({ transport, clock, commandTimeLimitMs });
    try {
      await prepare(connection, signal);
      return connection;
    } catch (error) {
      await connection[Symbol.asyncDispose]().catch(ignore); // the first error is the one to tell
      throw error;
    }
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    // What could not be flushed here is flushed by whoever connects next.
    await connection?.[Symbol.asyncDispose]().catch(ignore);
  }
}

export type TpmTask<T> = (connection: TpmConnection, signal: AbortSignal) => Promise<T>;

/** Starts a TPM that nobody has started, and throws out objects and sessions of a client that crashed. */
async function prepare(connection: TpmConnection, signal: AbortSignal): Promise<void> {
  const objects = await listHandles(connection, TRANSIENT_HANDLES, signal).catch(async (error: unknown) => {
    if (!isUninitialized(error)) throw error;
    await startup(connection, signal);
    return listHandles(connection, TRANSIENT_HANDLES, signal);
  });
  const sessions = await listHandles(connection, LOADED_SESSIONS, signal);
  for (const handle of [...objects, ...sessions]) await connection.track(handle)[Symbol.asyncDispose]();
}

async function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason as Error);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function ignore(): void {
  /* the caller of the task has its error already */
}
