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

/** What this end does between frames. Each stops with its signal. */
export interface EvidenceHandler {
  issue(format: number, bound: EvidenceBinding, signal: AbortSignal): Promise<Uint8Array>;
  validate(evidence: Evidence, binding: Uint8Array, signal: AbortSignal): Promise<void>;
}

/**
 * Takes the handshake's turns on a real socket. Reads with `read(n)` on 'readable' only, so that not one byte of
 * the application is taken, and lets go of the socket when disposed. One at a time per socket.
 */
export class HandshakeDriver implements Disposable {
  readonly #socket: TLSSocket;
  readonly #work: EvidenceHandler;
  readonly #signal: AbortSignal;
  #unwritten = 0;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  /** When `signal` fires, whatever this does rejects with its reason. */
  constructor(socket: TLSSocket, work: EvidenceHandler, signal: AbortSignal) {
    this.#socket = socket;
    this.#work = work;
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

  /** Takes all turns of a coroutine and answers its result. */
  async run<Result>(turns: HandshakeSteps<Result>): Promise<Result> {
    let next = turns.next();
    while (next.done !== true) {
      const turn = next.value;
      next = turns.next(turn.kind === 'send' ? this.#send(turn.bytes) : await this.#take(turn));
    }
    return next.value;
  }

  /** Waits until the callback of every write has come: http2 aborts the process on a socket that still writes. */
  async flush(): Promise<void> {
    for (this.#throwIfBroken(); this.#unwritten > 0; this.#throwIfBroken()) await this.#changed();
  }

  #take(turn: Exclude<HandshakeStep, { kind: 'send' }>): Promise<Uint8Array> {
    switch (turn.kind) {
      case 'read':
        return this.#read(turn.sizeBytes);
      case 'issue':
        return this.#undisturbed((alive) => this.#work.issue(turn.format, turn, alive));
      case 'validate':
        return this.#undisturbed(async (alive) => {
          await this.#work.validate(turn.evidence, turn.binding, alive);
          return NOTHING;
        });
    }
  }

  async #read(sizeBytes: number): Promise<Uint8Array> {
    if (sizeBytes === 0) return NOTHING;
    for (;;) {
      const chunk = this.#socket.read(sizeBytes) as Uint8Array | null;
      if (chunk?.length === sizeBytes) return chunk;
      if (chunk !== null) throw truncated(); // at the end of a stream, read(n) answers what is left
      this.#throwIfBroken();
      await this.#changed();
    }
  }

  #send(bytes: Uint8Array): Uint8Array {
    this.#unwritten++;
    // A failed write shows as 'error' and 'close' too, so the callback only counts.
    this.#socket.write(bytes, () => {
      this.#unwritten--;
      this.#onChange();
    });
    return NOTHING;
  }

  /** Works while the peer is silent. A peer that speaks out of its turn or goes away stops the work. */
  async #undisturbed(work: (alive: AbortSignal) => Promise<Uint8Array>): Promise<Uint8Array> {
    using alive = childSignal(this.#signal);
    const working = work(alive.signal);
    try {
      const answer = await Promise.race([working, this.#disturbed()]);
      if (answer !== undefined && this.#socket.readableLength === 0) return answer;
      return await this.run(rejectUnexpectedBytes());
    } catch (error) {
      alive.abort(error);
      working.catch(() => undefined); // it has lost the race; the reason thrown here is the first one
      throw error;
    }
  }

  /** Never settles when the work wins: nobody wakes it any more. */
  async #disturbed(): Promise<undefined> {
    while (this.#socket.readableLength === 0) {
      this.#socket.read(0); // lets 'end' come when the peer has closed
      this.#throwIfBroken();
      await this.#changed();
    }
  }

  /** Resolves when there is news; the caller looks again at what it waits for. One waits at a time. */
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
