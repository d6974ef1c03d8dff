import type { Clock } from '../clock/index.ts';
import { listHandles, startup, TRANSIENT_HANDLES, LOADED_SESSIONS } from './commands/lifecycle.ts';
import { TpmConnection, type TpmMemory } from './connection.ts';
import { TpmError } from './errors.ts';
import { isUninitialized } from './response-codes.ts';
import type { TransportSource } from './transport.ts';

/** Configuration of a `Tpm`. */
export interface TpmOptions {
  readonly source: TransportSource;
  readonly clock: Clock;
  /** Timeout of one command; see `ConnectionOptions`. */
  readonly commandTimeLimitMs?: number;
  /** Number of tasks that may wait. Further tasks are refused immediately with `tpm-busy`. */
  readonly maxWaiting?: number;
}

const COMMAND_TIME_LIMIT_MS = 60_000;
const MAX_WAITING = 256;

/**
 * A TPM and its queue of tasks. A task has exclusive access from its first to its last command. The first task opens
 * the connection, which flushes objects that a crashed program left behind. The connection is closed when no task
 * waits, unless the transport may stay open.
 */
export class Tpm implements AsyncDisposable {
  readonly #options: Required<TpmOptions>;
  readonly #memory: TpmMemory = {};
  #connection: TpmConnection | undefined;
  #tail: Promise<void> = Promise.resolve();
  #waiting = 0;
  #closed = false;

  constructor(options: TpmOptions) {
    this.#options = { commandTimeLimitMs: COMMAND_TIME_LIMIT_MS, maxWaiting: MAX_WAITING, ...options };
  }

  /** The path or address of the TPM, for messages. */
  get address(): string {
    return this.#options.source.address;
  }

  /**
   * Runs `task` after the tasks before it. Rejects as soon as the signal fires; a command that the TPM is running still
   * completes before the next task starts.
   */
  async use<T>(signal: AbortSignal, task: TpmTask<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#closed)
      throw new TpmError('tpm-unavailable', `using the TPM at ${this.address}: it was closed`);
    if (this.#waiting >= this.#options.maxWaiting) {
      throw new TpmError('tpm-busy', `using the TPM at ${this.address}: ${this.#waiting} tasks are waiting`);
    }
    this.#waiting++;
    const run = this.#tail.then(() => this.#run(signal, task));
    this.#tail = run.then(ignore, ignore).then(() => this.#afterTask());
    return raceAbort(run, signal);
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

  /**
   * Runs after success and failure of a task. Closes the connection if its objects cannot be flushed; the next
   * connection flushes them.
   */
  async #afterTask(): Promise<void> {
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
    const connection = new TpmConnection({ transport, clock, commandTimeLimitMs, memory: this.#memory });
    try {
      await prepare(connection, signal);
      return connection;
    } catch (error) {
      // An error of the disposal is ignored, because the first error is more important.
      await connection[Symbol.asyncDispose]().catch(ignore);
      throw error;
    }
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    // The next connection flushes what could not be flushed here.
    await connection?.[Symbol.asyncDispose]().catch(ignore);
  }
}

/** A function that sends commands to the TPM with exclusive access. */
export type TpmTask<T> = (connection: TpmConnection, signal: AbortSignal) => Promise<T>;

/** Sends TPM2_Startup if necessary, and flushes objects and sessions of programs that crashed. */
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
  /* the caller of the task has received the error */
}
