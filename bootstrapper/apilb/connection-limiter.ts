import type { Socket } from 'node:net';
import type { Clock } from '../../internal/clock/index.ts';
import type { Limits } from './config.ts';

/** Who is let through a passage: so many, so many from one address, and where an age is set none for ever. */
export class ConnectionLimiter {
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #bySource = new Map<string, number>();
  #count = 0;

  constructor(limits: Limits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Whether this connection may stay; it is counted until it closes, and cut when its time is over. */
  admit(client: Socket): boolean {
    const { connections, perSource, lifeMs } = this.#limits;
    const source = client.remoteAddress; // gone when the other end is
    const held = this.#bySource.get(source ?? '') ?? 0;
    if (source === undefined || this.#count >= connections || held >= perSource) return false;
    this.#count++;
    this.#bySource.set(source, held + 1);
    const closed = new AbortController();
    client.once('close', () => {
      closed.abort(new Error('it has closed'));
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

  /** Both ends of a connection that is let through: what is passed on is a sign of life of both. */
  watch(...ends: readonly Socket[]): void {
    const { idleMs, halfOpenMs } = this.#limits;
    for (const socket of ends) {
      socket.setTimeout(idleMs, () => socket.destroy());
      socket.once('end', () => socket.setTimeout(halfOpenMs));
    }
  }
}
