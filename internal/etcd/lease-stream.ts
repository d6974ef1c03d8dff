import { createClient } from '../rpc/index.ts';
import { EtcdError, etcdError } from './errors.ts';
import { childSignal, type ChildSignal } from '../cleanup/index.ts';
import type { EtcdConnection } from './connection.ts';
import { Lease } from './proto/gen/etcdserverpb_pb.js';

/** How often beats are looked at that wait for too long: a timer of its own for each would cost more than the beat. */
const SWEEP_MS = 250;

interface Beat {
  readonly leaseId: bigint;
  readonly timeoutMs: number;
  readonly untilMs: number;
  readonly answer: PromiseWithResolvers<number | undefined>;
}

/**
 * Keepalives of one client over one stream: heartbeats cost no stream of their own and no write in etcd.
 * etcd answers in the order of the requests on a stream, per lease.
 */
export class LeaseStream implements Disposable {
  readonly #connection: Connection;
  readonly #closed = new AbortController();
  #toSend: Beat[] = [];
  #sent = new Map<bigint, Beat[]>();
  #wake = Promise.withResolvers<void>();
  /** Ends the stream that is open now. */
  #stream: ChildSignal | undefined;
  readonly #waiting = new Set<Beat>();
  #sweeping = false;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new Error('the etcd client was closed'));
    this.#wake.resolve();
    this.#fail(this.#closed.signal.reason);
  }

  /** Answers the seconds that are left now, or undefined when the lease is gone. */
  async keepAlive(leaseId: bigint, signal: AbortSignal, timeoutMs: number): Promise<number | undefined> {
    signal.throwIfAborted();
    this.#closed.signal.throwIfAborted();
    const answer = Promise.withResolvers<number | undefined>();
    const untilMs = this.#connection.clock.monotonicMs() + timeoutMs;
    const beat = { leaseId, answer, timeoutMs, untilMs };
    this.#toSend.push(beat);
    this.#wake.resolve();
    if (this.#stream === undefined) void this.#run();
    return this.#bounded(beat, signal);
  }

  async #bounded(beat: Beat, signal: AbortSignal): Promise<number | undefined> {
    const onAbort = (): void => beat.answer.reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(beat);
    if (!this.#sweeping) void this.#sweep();
    try {
      return await beat.answer.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#waiting.delete(beat);
    }
  }

  /**
   * For as long as anybody waits. A stream that answers one beat too late is given up, or one that died without a word
   * would take every later beat too.
   */
  async #sweep(): Promise<void> {
    const { clock } = this.#connection;
    this.#sweeping = true;
    try {
      while (this.#waiting.size > 0) {
        await clock.sleep(SWEEP_MS, this.#closed.signal);
        for (const { answer, timeoutMs, untilMs } of this.#waiting) {
          if (untilMs > clock.monotonicMs()) continue;
          const late = `keeping a lease alive: no answer within ${timeoutMs} ms`;
          answer.reject(new EtcdError('etcd-unavailable', late));
          this.#stream?.abort(new EtcdError('etcd-unavailable', late));
        }
      }
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#fail(error); // closed: everybody has been told
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
        const beat = this.#sent.get(id)?.shift();
        beat?.answer.resolve(ttlSeconds > 0n ? Number(ttlSeconds) : undefined);
        if (this.#sent.get(id)?.length === 0) this.#sent.delete(id);
      }
      throw new EtcdError('etcd-unavailable', 'keeping leases alive: the member ended the stream');
    } catch (error) {
      this.#connection.failOver(channel);
      this.#stream = undefined;
      stream.abort(error);
      this.#fail(etcdError('keeping leases alive', error));
    }
  }

  async *#requests(stream: AbortSignal) {
    while (!stream.aborted) {
      for (const beat of this.#toSend.splice(0)) {
        const waiting = this.#sent.get(beat.leaseId);
        if (waiting === undefined) this.#sent.set(beat.leaseId, [beat]);
        else waiting.push(beat);
        yield { id: beat.leaseId };
      }
      if (this.#toSend.length > 0) continue;
      this.#wake = Promise.withResolvers();
      await this.#wake.promise;
    }
  }

  /** Everybody who waits learns it; the next beat opens a new stream, on another member if there is one. */
  #fail(error: unknown): void {
    const waiting = [...this.#toSend.splice(0), ...[...this.#sent.values()].flat()];
    this.#sent.clear();
    this.#wake.resolve();
    for (const beat of waiting) beat.answer.reject(error);
  }
}

type Connection = Pick<EtcdConnection, 'channel' | 'clock' | 'failOver'>;
