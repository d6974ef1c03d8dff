import type { Clock } from '../clock/index.ts';
import { RpcChannel, tlsClientUpgrade, type TlsIdentity } from '../rpc/index.ts';
import { EtcdError, etcdError } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import { acceptEtcdServer } from './trust.ts';

const CALL_MS = 5_000;

export interface EtcdOptions {
  /** "host:port" of each member's client listener; the first is preferred. */
  readonly endpoints: readonly [string, ...string[]];
  /** The certificate's common name is the etcd user. */
  readonly identity: TlsIdentity;
  readonly serverCaPem: string;
  readonly clock: Clock;
}

/** What a call is given: the channel to use now, and gRPC options with a deadline. */
export type Attempt<T> = (
  channel: RpcChannel,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
) => Promise<T>;

/**
 * One channel per member and which of them is used now. A member that does not answer is left for the next one.
 * Reads are then asked again there; a write is not, for nobody knows whether it happened.
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

  get channel(): RpcChannel {
    const channel = this.#channels[this.#current];
    if (channel === undefined) throw new Error('an etcd connection without endpoints');
    return channel;
  }

  /** Leaves the member that was used when `failed` was seen, unless somebody did so before. */
  failOver(failed: RpcChannel): void {
    if (this.channel === failed) this.#current = (this.#current + 1) % this.#channels.length;
  }

  async read<T>(doing: string, options: CallOptions, attempt: Attempt<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.write(doing, options, attempt);
      } catch (error) {
        const again = error instanceof EtcdError && error.code === 'etcd-unavailable';
        if (!again || tries >= this.#channels.length) throw error;
      }
    }
  }

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
