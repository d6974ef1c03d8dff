import { formatDuration } from '../clock/index.ts';
import { createClient } from '../rpc/index.ts';
import { EtcdError, etcdError } from './errors.ts';
import { childSignal, type ChildSignal } from '../cleanup/index.ts';
import type { EtcdConnection } from './connection.ts';
import { Lease } from './proto/gen/etcdserverpb_pb.js';

/** How often renewals are checked for timeouts. One timer per renewal would cost more than the renewal. */
const SWEEP_MS = 250;

interface Renewal {
  readonly leaseId: bigint;
  readonly timeoutMs: number;
  readonly untilMs: number;
  readonly answer: PromiseWithResolvers<number | undefined>;
}

/**
 * Renews the leases of one client over one stream, without a write in etcd. On one stream, etcd responds
 * for each lease in the order of the requests.
 */
export class LeaseStream implements Disposable {
  readonly #connection: Connection;
  readonly #closed = new AbortController();
  #toSend: Renewal[] = [];
  #sent = new Map<bigint, Renewal[]>();
  #wake = Promise.withResolvers<void>();
  /** Aborts the open stream. */
  #stream: ChildSignal | undefined;
  readonly #waiting = new Set<Renewal>();
  #sweeping = false;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new Error('the etcd client was closed'));
    this.#wake.resolve();
    this.#fail(this.#closed.signal.reason);
  }

  /** @returns the remaining seconds; undefined when the lease has expired */
  async keepAlive(leaseId: bigint, signal: AbortSignal, timeoutMs: number): Promise<number | undefined> {
    signal.throwIfAborted();
    this.#closed.signal.throwIfAborted();
    const answer = Promise.withResolvers<number | undefined>();
    const untilMs = this.#connection.clock.monotonicMs() + timeoutMs;
    const renewal = { leaseId, answer, timeoutMs, untilMs };
    this.#toSend.push(renewal);
    this.#wake.resolve();
    if (this.#stream === undefined) void this.#run();
    return this.#bounded(renewal, signal);
  }

  async #bounded(renewal: Renewal, signal: AbortSignal): Promise<number | undefined> {
    const onAbort = (): void => renewal.answer.reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(renewal);
    if (!this.#sweeping) void this.#sweep();
    try {
      return await renewal.answer.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#waiting.delete(renewal);
    }
  }

  /**
   * Runs while a renewal waits. Closes a stream that misses one deadline: over a silently broken
   * connection, all later renewals would get no response either.
   */
  async #sweep(): Promise<void> {
    const { clock } = this.#connection;
    this.#sweeping = true;
    try {
      while (this.#waiting.size > 0) {
        await clock.sleep(SWEEP_MS, this.#closed.signal);
        for (const { answer, timeoutMs, untilMs } of this.#waiting) {
          if (untilMs > clock.monotonicMs()) continue;
          const late = `renewing etcd lease: timed out after ${formatDuration(timeoutMs)}`;
          answer.reject(new EtcdError('etcd-unavailable', late));
          this.#stream?.abort(new EtcdError('etcd-unavailable', late));
        }
      }
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#fail(error); // after close(), all callers already have an error
    } finally {
      this.#sweeping = false;
    }
  }

  async #run(): Promise<void> {
    using stream = childSignal(this.#closed.signal);
    this.#stream = stream;
    const channel = this.#connection.channel;
    try {
      const answers = createClient(Lease, channel).leaseKeepAlive(this.#requests(stream.signal), {
        signal: stream.signal,
        headers: { hasleader: 'true' },
      });
      for await (const { id, ttlSeconds } of answers) {
        const renewal = this.#sent.get(id)?.shift();
        renewal?.answer.resolve(ttlSeconds > 0n ? Number(ttlSeconds) : undefined);
        if (this.#sent.get(id)?.length === 0) this.#sent.delete(id);
      }
      throw new EtcdError('etcd-unavailable', 'renewing etcd leases: the member ended the stream');
    } catch (error) {
      this.#connection.failOver(channel);
      this.#stream = undefined;
      stream.abort(error);
      this.#fail(etcdError('renewing etcd leases', error));
    }
  }

  async *#requests(stream: AbortSignal) {
    while (!stream.aborted) {
      for (const renewal of this.#toSend.splice(0)) {
        const waiting = this.#sent.get(renewal.leaseId);
        if (waiting === undefined) this.#sent.set(renewal.leaseId, [renewal]);
        else waiting.push(renewal);
        yield { id: renewal.leaseId };
      }
      if (this.#toSend.length > 0) continue;
      this.#wake = Promise.withResolvers();
      await this.#wake.promise;
    }
  }

  /**
   * Rejects all waiting renewals. The next renewal opens a new stream, at another member if there is one.
   */
  #fail(error: unknown): void {
    const waiting = [...this.#toSend.splice(0), ...[...this.#sent.values()].flat()];
    this.#sent.clear();
    this.#wake.resolve();
    for (const renewal of waiting) renewal.answer.reject(error);
  }
}

type Connection = Pick<EtcdConnection, 'channel' | 'clock' | 'failOver'>;
