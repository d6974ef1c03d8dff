import type { TLSSocket } from 'node:tls';
import { childSignal } from '../cleanup/index.ts';
import { AtlsError } from './errors.ts';
import {
  rejectUnexpectedBytes,
  type EvidenceBinding,
  type HandshakeStep,
  type HandshakeSteps,
} from './handshake.ts';
import type { Evidence } from './wire.ts';

const NOTHING = new Uint8Array(0);

/**
 * The work of this end between the frames: creating and verifying evidence. Both methods stop when their signal fires.
 */
export interface EvidenceHandler {
  /** Creates evidence in `format`, one of the formats that this end shows. */
  issue(format: number, binding: EvidenceBinding, signal: AbortSignal): Promise<Uint8Array>;
  /** Verifies the peer's evidence. Rejects if this end refuses the evidence. */
  validate(evidence: Evidence, binding: Uint8Array, signal: AbortSignal): Promise<void>;
}

/**
 * Performs the steps of the handshake on a socket. The driver reads with `read(n)` on 'readable', so that it takes no
 * byte of the application protocol. When the driver is disposed, it removes its listeners. A socket has at most one
 * driver at a time.
 */
export class HandshakeDriver implements Disposable {
  readonly #socket: TLSSocket;
  readonly #handler: EvidenceHandler;
  readonly #signal: AbortSignal;
  #unwritten = 0;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  /** When `signal` fires, every pending call rejects with the reason of the signal. */
  constructor(socket: TLSSocket, handler: EvidenceHandler, signal: AbortSignal) {
    this.#socket = socket;
    this.#handler = handler;
    this.#signal = signal;
    socket.on('readable', this.#onChange).on('end', this.#onChange).on('close', this.#onChange);
    socket.on('error', this.#onError);
    signal.addEventListener('abort', this.#onChange);
  }

  [Symbol.dispose](): void {
    const socket = this.#socket;
    socket.off('readable', this.#onChange).off('end', this.#onChange).off('close', this.#onChange);
    socket.off('error', this.#onError);
    this.#signal.removeEventListener('abort', this.#onChange);
  }

  /** Performs all steps of a coroutine and returns its result. */
  async run<Result>(steps: HandshakeSteps<Result>): Promise<Result> {
    let next = steps.next();
    while (next.done !== true) {
      const step = next.value;
      next = steps.next(step.kind === 'send' ? this.#send(step.bytes) : await this.#perform(step));
    }
    return next.value;
  }

  /**
   * Waits for the callbacks of all writes. If http2 took over a socket with unfinished writes, Node would abort the
   * process.
   */
  async flush(): Promise<void> {
    for (this.#throwIfBroken(); this.#unwritten > 0; this.#throwIfBroken()) await this.#changed();
  }

  #perform(step: Exclude<HandshakeStep, { kind: 'send' }>): Promise<Uint8Array> {
    switch (step.kind) {
      case 'read':
        return this.#read(step.sizeBytes);
      case 'issue':
        return this.#whilePeerIsSilent((signal) => this.#handler.issue(step.format, step, signal));
      case 'validate':
        return this.#whilePeerIsSilent(async (signal) => {
          await this.#handler.validate(step.evidence, step.binding, signal);
          return NOTHING;
        });
    }
  }

  async #read(sizeBytes: number): Promise<Uint8Array> {
    if (sizeBytes === 0) return NOTHING;
    for (;;) {
      const chunk = this.#socket.read(sizeBytes) as Uint8Array | null;
      if (chunk?.length === sizeBytes) return chunk;
      if (chunk !== null) throw truncated(); // at the end of the stream, read(n) may return fewer bytes
      this.#throwIfBroken();
      await this.#changed();
    }
  }

  #send(bytes: Uint8Array): Uint8Array {
    this.#unwritten++;
    // The callback ignores the error of a failed write, which also emits 'error' and 'close'.
    this.#socket.write(bytes, () => {
      this.#unwritten--;
      this.#onChange();
    });
    return NOTHING;
  }

  /** Runs `work`, and aborts it when the peer sends something or closes the connection. */
  async #whilePeerIsSilent(work: (alive: AbortSignal) => Promise<Uint8Array>): Promise<Uint8Array> {
    using alive = childSignal(this.#signal);
    const working = work(alive.signal);
    try {
      const result = await Promise.race([working, this.#peerActivity()]);
      if (result !== undefined && this.#socket.readableLength === 0) return result;
      return await this.run(rejectUnexpectedBytes());
    } catch (error) {
      alive.abort(error);
      working.catch(() => undefined); // `work` then rejects because of the abort; `error` is the cause
      throw error;
    }
  }

  /** Resolves when the peer has sent something. Never settles when the work ends first. */
  async #peerActivity(): Promise<undefined> {
    while (this.#socket.readableLength === 0) {
      this.#socket.read(0); // makes Node emit 'end' when the peer has closed
      this.#throwIfBroken();
      await this.#changed();
    }
  }

  /**
   * Resolves at the next event of the socket. The caller then checks again whether the state for which it waits is
   * reached. One caller waits at a time.
   */
  #changed(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  readonly #onChange = (): void => this.#wake();

  readonly #onError = (error: Error): void => {
    this.#failure ??= error;
    this.#wake();
  };

  #throwIfBroken(): void {
    this.#signal.throwIfAborted();
    if (this.#failure !== undefined) {
      throw new AtlsError('atls-connection', 'attesting', { cause: this.#failure });
    }
    if (this.#socket.readableEnded || this.#socket.destroyed) throw truncated();
  }
}

function truncated(): AtlsError {
  return new AtlsError('atls-truncated', 'attesting: the peer closed the connection');
}
