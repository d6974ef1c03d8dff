import type { Socket } from 'node:net';
import type { Clock } from '../../internal/clock/index.ts';
import { holderOf } from '../../internal/endpoint/index.ts';
import type { Limits } from './config.ts';

/** Limits the connections of a forward rule by total number, number per client (IPv4 address or IPv6 /64), and age. */
export class ConnectionLimiter {
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #bySource = new Map<string, number>();
  #count = 0;

  constructor(limits: Limits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /**
   * Whether to accept a connection. An accepted connection counts until it closes, and is closed at its
   * maximum age.
   */
  admit(client: Socket): boolean {
    const { connections, perSource, lifeMs } = this.#limits;
    const address = client.remoteAddress; // undefined once the client has closed the connection
    const source = holderOf(address ?? '');
    const held = this.#bySource.get(source) ?? 0;
    if (address === undefined || this.#count >= connections || held >= perSource) return false;
    this.#count++;
    this.#bySource.set(source, held + 1);
    const closed = new AbortController();
    client.once('close', () => {
      closed.abort(new Error('the connection has closed'));
      this.#count--;
      const left = (this.#bySource.get(source) ?? 1) - 1;
      if (left === 0) this.#bySource.delete(source);
      else this.#bySource.set(source, left);
    });
    if (lifeMs !== undefined)
      this.#clock.sleep(lifeMs, closed.signal).then(
        () => client.destroy(),
        () => undefined,
      );
    return true;
  }

  /** Closes both ends of a connection that carries no data, or that one end has closed. */
  watch(...ends: readonly Socket[]): void {
    const { idleMs, halfOpenMs } = this.#limits;
    for (const socket of ends) {
      socket.setTimeout(idleMs, () => socket.destroy());
      socket.once('end', () => socket.setTimeout(halfOpenMs));
    }
  }
}
