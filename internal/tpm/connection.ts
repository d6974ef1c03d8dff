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
import { WireWriter } from './wire.ts';

/** 2 + 4 + … + 256, then 256 ms each: four seconds in all, more than any self-test asks for. */
const MAX_ATTEMPTS = 22;
const PAUSES = { firstMs: 2, factor: 2, longestMs: 256 };

export interface ConnectionOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  /** One command may take this long: RSA key generation on a hardware TPM takes up to a minute. */
  readonly commandTimeLimitMs: number;
}

/**
 * One open transport and what is loaded over it. Commands of one task run here one after the other; whoever
 * makes an object disposes it, and what is left is flushed when the connection closes.
 */
export class TpmConnection implements AsyncDisposable {
  readonly #options: ConnectionOptions;
  readonly #loaded = new Set<number>();
  readonly #kept = new Set<number>();
  #broken = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** The stream is out of step or gone: nothing more can be said over it. */
  get broken(): boolean {
    return this.#broken;
  }

  /** Sends a command, again while the TPM says "retry", and takes the response apart. */
  async execute(command: TpmCommand, signal: AbortSignal): Promise<TpmResponse> {
    const message = encodeCommand(command);
    const backoff = new Backoff(PAUSES);
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const response = await this.#transmit(command, message);
      const rc = readResponseCode(response, command.name);
      if (!isRetryable(rc)) return decodeResponse(response, command);
      if (attempt === MAX_ATTEMPTS) throw errorFromResponseCode(command.name, rc);
      await this.#options.clock.sleep(backoff.nextMs(), signal);
    }
  }

  /** Takes charge of a transient object or session until it is flushed; the end of the task flushes it at the latest. */
  track(handle: number): LoadedHandle {
    this.#loaded.add(handle);
    return { handle, [Symbol.asyncDispose]: () => this.#flush(handle) };
  }

  /** Keeps an object beyond its task, for as long as the connection is open: a key that is costly to derive. */
  keepLoaded({ handle }: LoadedHandle): void {
    this.#kept.add(handle);
  }

  /** Flushes what a task loaded and did not keep, also what it left behind by failing or by being aborted. */
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
   * Runs after aborts and failures too, so it takes no signal; each command is bounded by its time limit. On a
   * broken connection there is nothing to say: the next one flushes what this one left.
   */
  async #flush(handle: number): Promise<void> {
    this.#kept.delete(handle);
    if (!this.#loaded.delete(handle) || this.#broken) return;
    const parameters = new WireWriter().u32(handle).finish();
    const command: TpmCommand = { name: 'flushContext', parameters };
    decodeResponse(await this.#transmit(command, encodeCommand(command)), command).parameters.end();
  }

  /** A command that is on its way is never called off: TPMs cannot. It ends by answer or by time limit. */
  async #transmit(command: TpmCommand, message: Uint8Array): Promise<Uint8Array> {
    if (this.#broken) throw new TpmError('tpm-connection', `sending ${command.name}: connection given up`);
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
      throw new TpmError('tpm-timeout', `asking the TPM for ${command.name}`, { cause: error });
    }
  }
}

/** Something in the TPM's memory that must be let go. `await using`. */
export interface LoadedHandle extends AsyncDisposable {
  readonly handle: number;
}
