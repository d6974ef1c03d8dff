import type { Clock } from '../clock/index.ts';
import { RpcChannel, tlsClientUpgrade, type TlsIdentity } from '../rpc/index.ts';
import { EtcdError, etcdError, isLeaderChange } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import { acceptEtcdServer } from './trust.ts';

const CALL_MS = 5_000;
/** How often a read is made in all when its member says that the leader changed. */
const LEADER_CHANGE_TRIES = 3;

/** How to connect to an etcd cluster. */
export interface EtcdOptions {
  /** "host:port" of each member's client listener; the first is preferred. */
  readonly endpoints: readonly [string, ...string[]];
  /** The certificate's common name is the etcd user. */
  readonly identity: TlsIdentity;
  readonly serverCaPem: string;
  readonly clock: Clock;
}

/** One attempt of a call: over the current channel, with a deadline. */
export type Attempt<T> = (
  channel: RpcChannel,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
) => Promise<T>;

/**
 * One channel per member. When a member does not respond, the connection switches to the next one. Reads
 * are repeated there. Writes are not repeated, because they may have happened.
 */
export class EtcdConnection implements Disposable {
  readonly clock: Clock;
  readonly #channels: readonly RpcChannel[];
  #current = 0;

  constructor(options: EtcdOptions) {
    this.clock = options.clock;
    this.#channels = options.endpoints.map(
      (endpoint) =>
        new RpcChannel({
          endpoint,
          upgrade: tlsClientUpgrade({
            clock: options.clock,
            identity: options.identity,
            accept: acceptEtcdServer({
              endpoint,
              serverCaPem: options.serverCaPem,
              nowMs: () => options.clock.nowMs(),
            }),
          }),
        }),
    );
  }

  [Symbol.dispose](): void {
    for (const channel of this.#channels) channel[Symbol.dispose]();
  }

  /** The channel to the current member. */
  get channel(): RpcChannel {
    const channel = this.#channels[this.#current];
    if (channel === undefined) throw new Error('no etcd endpoint');
    return channel;
  }

  /** Switches to the next member, unless another caller has already left the failed channel. */
  failOver(failed: RpcChannel): void {
    if (this.channel === failed) this.#current = (this.#current + 1) % this.#channels.length;
  }

  /**
   * Makes a call. If a member does not respond, repeats the call at each other member; if the members have just elected
   * another leader, repeats it once more, because the new leader can answer. @throws EtcdError
   */
  async read<T>(doing: string, options: CallOptions, attempt: Attempt<T>): Promise<T> {
    let limit = this.#channels.length;
    for (let tries = 1; ; tries++) {
      try {
        return await this.write(doing, options, attempt);
      } catch (error) {
        const again = error instanceof EtcdError && error.code === 'etcd-unavailable';
        if (again && isLeaderChange(error)) limit = Math.max(limit, LEADER_CHANGE_TRIES);
        if (!again || tries >= limit) throw error;
      }
    }
  }

  /** Makes a call once. @throws EtcdError */
  async write<T>(doing: string, options: CallOptions, attempt: Attempt<T>): Promise<T> {
    const channel = this.channel;
    try {
      return await attempt(channel, { signal: options.signal, timeoutMs: options.timeoutMs ?? CALL_MS });
    } catch (error) {
      const translated = etcdError(doing, error);
      if (translated instanceof EtcdError && translated.code === 'etcd-unavailable') this.failOver(channel);
      throw translated;
    }
  }
}
