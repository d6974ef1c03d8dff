import type { TLSSocket } from 'node:tls';
import { childSignal } from '../cleanup/index.ts';
import { AtlsError } from './errors.ts';
import { interruption, type Turn, type Turns } from './handshake.ts';
import type { Evidence } from './wire.ts';

const NOTHING = new Uint8Array(0);

/** What this end does between frames. Each stops with its signal. */
export interface EvidenceWork {
  issue(format: number, binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
  validate(evidence: Evidence, binding: Uint8Array, signal: AbortSignal): Promise<void>;
}

/**
 * Takes the handshake's turns on a real socket. Reads with `read(n)` on 'readable' only, so that not one byte of
 * the application is taken, and lets go of the socket when disposed. One at a time per socket.
 */
export class HandshakeDriver implements Disposable {
  readonly #socket: TLSSocket;
  readonly #work: EvidenceWork;
  #unwritten = 0;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  constructor(socket: TLSSocket, work: EvidenceWork) {
    this.#socket = socket;
    this.#work = work;
    socket.on('readable', this.#onChange).on('end', this.#onChange).on('close', this.#onChange);
    socket.on('error', this.#onError);
  }

  [Symbol.dispose](): void {
    const socket = this.#socket;
    socket.off('readable', this.#onChange).off('end', this.#onChange).off('close', this.#onChange);
    socket.off('error', this.#onError);
  }

  /** Takes all turns of a coroutine and answers its result. */
  async run<Result>(turns: Turns<Result>, signal: AbortSignal): Promise<Result> {
    let next = turns.next();
    while (next.done !== true) next = turns.next(await this.#take(next.value, signal));
    return next.value;
  }

  /** Waits until the callback of every write has come: http2 aborts the process on a socket that still writes. */
  async flush(signal: AbortSignal): Promise<void> {
    while (this.#unwritten > 0) {
      this.#throwIfBroken();
      await this.#changed(signal);
    }
    this.#throwIfBroken();
  }

  #take(turn: Turn, signal: AbortSignal): Promise<Uint8Array> | Uint8Array {
    switch (turn.kind) {
      case 'read':
        return this.#read(turn.sizeBytes, signal);
      case 'send':
        return this.#send(turn.bytes);
      case 'issue':
        return this.#undisturbed(signal, (alive) => this.#work.issue(turn.format, turn.binding, alive));
      case 'validate':
        return this.#undisturbed(signal, async (alive) => {
          await this.#work.validate(turn.evidence, turn.binding, alive);
          return NOTHING;
        });
    }
  }

  async #read(sizeBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    if (sizeBytes === 0) return NOTHING;
    for (;;) {
      signal.throwIfAborted();
      const chunk = this.#socket.read(sizeBytes) as Uint8Array | null;
      if (chunk?.length === sizeBytes) return chunk;
      if (chunk !== null) throw truncated(); // at the end of a stream, read(n) answers what is left
      this.#throwIfBroken();
      await this.#changed(signal);
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
  async #undisturbed(
    signal: AbortSignal,
    work: (alive: AbortSignal) => Promise<Uint8Array>,
  ): Promise<Uint8Array> {
    using alive = childSignal(signal);
    const working = work(alive.signal);
    try {
      const answer = await Promise.race([working, this.#disturbed(alive.signal)]);
      if (this.#socket.readableLength === 0 && answer !== undefined) return answer;
    } finally {
      alive.abort(new Error('the peer gave up the attestation'));
      working.catch(() => undefined); // it has lost the race; the reason thrown here is the first one
    }
    return await this.run(interruption(), signal);
  }

  async #disturbed(signal: AbortSignal): Promise<undefined> {
    while (this.#socket.readableLength === 0) {
      this.#socket.read(0); // lets 'end' come when the peer has closed
      this.#throwIfBroken();
      await this.#changed(signal);
    }
  }

  /** Resolves when the socket has news; the caller looks again at what it waits for. */
  #changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(signal.reason as Error);
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      this.#wake = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
    });
  }

  readonly #onChange = (): void => this.#wake();

  readonly #onError = (error: Error): void => {
    this.#failure ??= error;
    this.#wake();
  };

  #throwIfBroken(): void {
    if (this.#failure !== undefined) {
      throw new AtlsError('atls-connection', 'attesting', { cause: this.#failure });
    }
    if (this.#socket.readableEnded || this.#socket.destroyed) throw truncated();
  }
}

function truncated(): AtlsError {
  return new AtlsError('atls-truncated', 'attesting: the peer closed the connection');
}
