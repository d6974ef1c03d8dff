import type { Socket } from 'node:net';
import { childSignal } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import type { Logger } from '../logging/index.ts';
import { RpcError } from './errors.ts';
import { FairQueue } from './fair-queue.ts';
import { SourceTree } from './source-tree.ts';
import { sourcePathOf } from './source-path.ts';

const MAX_CONNECTIONS = 512;
/** What Node asks the kernel for unless told otherwise. */
const BACKLOG = 511;

/** Before a connection proves itself: an upgrade is dear, a socket that waits is not. */
export interface PendingLimits {
  /** Connections that prove themselves at the same time. */
  readonly maxHandshakes: number;
  /** Connections that wait for that: a socket each, and at most 64 KiB that it has sent. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

/** Who comes in, in which order, and who goes when there are too many. */
export class ConnectionLimiter {
  readonly maxSockets: number;
  readonly #pending: PendingLimits | undefined;
  readonly #queue: FairQueue | undefined;
  readonly #inside = new SourceTree<Socket>();
  readonly #maxInside: number;
  readonly #clock: Clock;
  readonly #log: Logger;

  constructor(options: {
    readonly pending?: PendingLimits;
    readonly maxConnections?: number;
    readonly clock: Clock;
    readonly log: Logger;
  }) {
    const { pending, clock, log } = options;
    this.#pending = pending;
    this.#queue =
      pending === undefined
        ? undefined
        : new FairQueue({ maxActive: pending.maxHandshakes, maxWaiting: pending.maxWaiting, clock });
    this.#maxInside = options.maxConnections ?? MAX_CONNECTIONS;
    this.#clock = clock;
    this.#log = log;
    // One more than may wait, so that it is this door who says which one goes, and not the kernel.
    this.maxSockets =
      this.#maxInside + (pending === undefined ? 0 : pending.maxHandshakes + pending.maxWaiting + BACKLOG);
  }

  /** Connections that the kernel holds while this process does something else: a whole crowd fits. */
  get backlog(): number {
    return Math.max(BACKLOG, this.#pending?.maxWaiting ?? 0);
  }

  /**
   * Resolves with a place to prove itself in, to be disposed. Rejects with `rpc-crowded`, with `rpc-unreachable` when the
   * peer hangs up meanwhile, or with the signal's reason.
   */
  async acquire(socket: Socket, signal: AbortSignal): Promise<Disposable> {
    const [queue, pending] = [this.#queue, this.#pending];
    if (queue === undefined || pending === undefined) return { [Symbol.dispose]: () => undefined };
    using gone = childSignal(signal);
    using timer = childSignal(gone.signal);
    const onClose = (): void =>
      gone.abort(new RpcError('rpc-unreachable', 'waiting for a place: the peer closed the connection'));
    socket.once('close', onClose);
    void this.#clock.sleep(pending.maxWaitMs, timer.signal).then(
      () =>
        gone.abort(new RpcError('rpc-crowded', `waiting for a place: none within ${pending.maxWaitMs} ms`)),
      () => undefined,
    );
    try {
      return await queue.acquire(socket.remoteAddress ?? '', gone.signal);
    } finally {
      timer.abort();
      socket.off('close', onClose);
    }
  }

  /** It has proved itself and stays. When that is one too many, whoever has most connections loses the newest. */
  addEstablished(socket: Socket, address: string): void {
    if (this.#pending === undefined) return;
    const path = sourcePathOf(address);
    this.#inside.add(path, socket);
    socket.once('close', () => this.#inside.remove(path, socket));
    if (this.#inside.size <= this.#maxInside) return;
    const last = this.#inside.newestOfLargest();
    this.#log.warn('too many connections: the newest one of who has most goes', { limit: this.#maxInside });
    last?.destroy();
  }
}
