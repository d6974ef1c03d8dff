import { withTimeout, TimeoutError } from '../cleanup/index.ts';
import { Backoff, type Clock } from '../clock/index.ts';
import {
  CC,
  decodeResponse,
  encodeCommand,
  readResponseCode,
  type TpmCommand,
  type TpmResponse,
} from './command.ts';
import { TpmError } from './errors.ts';
import { isRetryable, errorFromResponseCode } from './response-codes.ts';
import type { Transport } from './transport.ts';
import { WireWriter, type WireReader } from './wire.ts';

/** Delays of 2, 4, … 256ms and then 256ms each: 4s in all, longer than any self-test. */
const MAX_ATTEMPTS = 22;
const PAUSES = { firstMs: 2, factor: 2, longestMs: 256 };

/** Configuration of a `TpmConnection`. */
export interface ConnectionOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  /** Timeout of one command. RSA key generation on a hardware TPM takes up to a minute. */
  readonly commandTimeLimitMs: number;
  /** What all connections to one TPM remember. */
  readonly memory?: TpmMemory;
}

/** What a program remembers of its TPM, so that nobody puts another one in its place. */
export interface TpmMemory {
  /** Name of the storage key with which this program has opened sessions. */
  storageKeyName?: Uint8Array;
}

/**
 * An open transport and the objects that were loaded over it. The commands of one task run one after another. The creator of
 * an object disposes it; objects that are left are flushed when the task or the connection ends.
 */
export class TpmConnection implements AsyncDisposable {
  /** See `TpmMemory`. */
  readonly memory: TpmMemory;
  readonly #options: ConnectionOptions;
  readonly #loaded = new Set<number>();
  readonly #kept = new Set<number>();
  #broken = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.memory = options.memory ?? {};
  }

  /** Whether the connection is unusable: it is closed, or a response may still arrive. */
  get broken(): boolean {
    return this.#broken;
  }

  /** Sends a command, repeatedly while the TPM returns "retry", and parses the response. Throws TpmError. */
  async execute(command: TpmCommand, signal: AbortSignal): Promise<TpmResponse> {
    const message = encodeCommand(command);
    const backoff = new Backoff(PAUSES);
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const response = await this.#transmit(command, message);
      const rc = readResponseCode(response, command.name);
      if (!isRetryable(rc)) return this.#decode(response, command);
      if (attempt === MAX_ATTEMPTS) throw errorFromResponseCode(command.name, rc);
      await this.#options.clock.sleep(backoff.nextMs(), signal);
    }
  }

  /** A salted session whose response is refused has another nonce than its TPM: the next task opens a new connection. */
  #decode(response: Uint8Array, command: TpmCommand): TpmResponse {
    try {
      return decodeResponse(response, command);
    } catch (error) {
      const isSalted = command.authorizations?.some(({ session }) => session !== undefined) === true;
      if (isSalted && readResponseCode(response, command.name) === 0) this.#broken = true;
      throw error;
    }
  }

  /** Runs a command whose response has no parameters. */
  run(command: TpmCommand, signal: AbortSignal): Promise<void> {
    return this.ask(command, signal, () => undefined);
  }

  /** Runs a command and parses the parameters of its response with `parse`. Refuses bytes that `parse` leaves over. */
  async ask<T>(command: TpmCommand, signal: AbortSignal, parse: (parameters: WireReader) => T): Promise<T> {
    const { parameters } = await this.execute(command, signal);
    const value = parse(parameters);
    parameters.end();
    return value;
  }

  /**
   * Registers a transient object or session. Disposing the result flushes the object; otherwise the end of the task
   * flushes it.
   */
  track(handle: number): LoadedHandle {
    this.#loaded.add(handle);
    return { handle, [Symbol.asyncDispose]: () => this.#flush(handle) };
  }

  /** Keeps an object loaded after its task, until the connection closes. For keys that are slow to derive. */
  keepLoaded({ handle }: LoadedHandle): void {
    this.#kept.add(handle);
  }

  /** Flushes all objects of a task except kept ones, also after a failed or aborted task. */
  async endTask(): Promise<void> {
    for (const handle of [...this.#loaded]) if (!this.#kept.has(handle)) await this.#flush(handle);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      for (const handle of [...this.#loaded]) await this.#flush(handle);
    } finally {
      this.#broken = true;
      await this.#options.transport[Symbol.asyncDispose]();
    }
  }

  /**
   * Flushes one object or session. Takes no signal, because it also runs after aborts; the command has a timeout. Does
   * nothing on a broken connection: the next connection flushes the objects that this connection left behind.
   */
  async #flush(handle: number): Promise<void> {
    this.#kept.delete(handle);
    if (!this.#loaded.delete(handle) || this.#broken) return;
    const parameters = new WireWriter().u32(handle).finish();
    const command: TpmCommand = { name: 'flushContext', parameters };
    decodeResponse(await this.#transmit(command, encodeCommand(command)), command).parameters.end();
  }

  /** Sends one command. A TPM cannot cancel it, so it ends only with its response or its timeout. */
  async #transmit(command: TpmCommand, message: Uint8Array): Promise<Uint8Array> {
    if (this.#broken)
      throw new TpmError('tpm-connection', `sending ${command.name} to the TPM: the connection is closed`);
    const { clock, transport, commandTimeLimitMs } = this.#options;
    const never = new AbortController().signal;
    try {
      return await withTimeout(
        {
          what: `waiting for ${command.name} (${CC[command.name]})`,
          ms: commandTimeLimitMs,
          clock,
          signal: never,
        },
        (signal) => transport.transmit(message, signal),
      );
    } catch (error) {
      this.#broken = true;
      if (!(error instanceof TimeoutError)) throw error;
      throw new TpmError('tpm-timeout', `sending ${command.name} to the TPM`, { cause: error });
    }
  }
}

/** An object or session in the memory of the TPM. Disposing flushes it. */
export interface LoadedHandle extends AsyncDisposable {
  readonly handle: number;
}
