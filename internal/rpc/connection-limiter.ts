import type { Socket } from 'node:net';
import { childSignal } from '../cleanup/index.ts';
import { formatDuration, type Clock } from '../clock/index.ts';
import type { Logger } from '../logging/index.ts';
import { RpcError } from './errors.ts';
import { FairQueue } from './fair-queue.ts';
import { SourceTree } from './source-tree.ts';
import type { SourcePath } from './source-path.ts';

const MAX_CONNECTIONS = 512;
/** The listen backlog that Node asks the kernel for by default. */
const BACKLOG = 511;

/** Limits of connections that are not authenticated yet: a handshake costs CPU time, a waiting socket does not. */
export interface PendingLimits {
  /** Handshakes at the same time. */
  readonly maxHandshakes: number;
  /** Connections that wait for a handshake: a socket each, and at most 64 KiB of received data. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

/** Decides which connection gets the next handshake, and which connection is closed when there are too many. */
export class ConnectionLimiter {
  readonly maxSockets: number;
  readonly #pending: PendingLimits | undefined;
  readonly #queue: FairQueue | undefined;
  readonly #established = new SourceTree<Socket>();
  readonly #maxEstablished: number;
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
    this.#maxEstablished = options.maxConnections ?? MAX_CONNECTIONS;
    this.#clock = clock;
    this.#log = log;
    // Higher than the number of sockets that this class queues, because this class accepts every connection and then
    // chooses which one to refuse. At `maxSockets`, Node.js would stop accepting, and connections would wait in the
    // kernel.
    this.maxSockets =
      this.#maxEstablished +
      (pending === undefined ? 0 : pending.maxHandshakes + pending.maxWaiting + BACKLOG);
  }

  /** The listen backlog: as many connections as may wait here. */
  get backlog(): number {
    return Math.max(BACKLOG, this.#pending?.maxWaiting ?? 0);
  }

  /**
   * Waits for a handshake slot, which the caller disposes.
   * @throws RpcError `rpc-crowded`; `rpc-unreachable` when the peer closes the connection meanwhile
   */
  async acquire(socket: Socket, path: SourcePath, signal: AbortSignal): Promise<Disposable> {
    const [queue, pending] = [this.#queue, this.#pending];
    if (queue === undefined || pending === undefined) return { [Symbol.dispose]: () => undefined };
    using gone = childSignal(signal);
    using timer = childSignal(gone.signal);
    const onClose = (): void =>
      gone.abort(new RpcError('rpc-unreachable', 'waiting for a handshake: the peer closed the connection'));
    socket.once('close', onClose);
    void this.#clock.sleep(pending.maxWaitMs, timer.signal).then(
      () =>
        gone.abort(
          new RpcError(
            'rpc-crowded',
            `waiting for a handshake: timed out after ${formatDuration(pending.maxWaitMs)}`,
          ),
        ),
      () => undefined,
    );
    try {
      return await queue.acquire(path, gone.signal);
    } finally {
      timer.abort();
      socket.off('close', onClose);
    }
  }

  /**
   * Counts an authenticated connection. Beyond the limit, the newest connection of the source with the most connections
   * is closed.
   */
  addEstablished(socket: Socket, path: SourcePath): void {
    if (this.#pending === undefined) return;
    this.#established.add(path, socket);
    socket.once('close', () => this.#established.remove(path, socket));
    if (this.#established.size <= this.#maxEstablished) return;
    const last = this.#established.newestOfLargest();
    this.#log.warn('too many connections, closing the newest one of the largest source', {
      limit: this.#maxEstablished,
    });
    last?.destroy();
  }
}
