import { holderOf } from '../endpoint/index.ts';
import { AtlsError } from './errors.ts';

/** How many connections may be in the handshake at the same time. */
export interface PendingConnectionLimits {
  /** `maxPending`: of all peers together. `maxPendingPerSource`: from one IPv4 address or one IPv6 /64. */
  readonly maxPending: number;
  readonly maxPendingPerSource: number;
}

/** The default limits. At most 128 peers with 64 KiB of evidence each: an attacker can make this end hold 8 MiB. */
export const PENDING_CONNECTION_LIMITS: PendingConnectionLimits = {
  maxPending: 128,
  maxPendingPerSource: 16,
};

/**
 * Limits the connections that have not completed the handshake. A source that has used its share is refused before TLS
 * starts, so that slots remain for other sources. A pending connection is never evicted, because it may be waiting for a slow
 * TPM; a silent peer is closed by its timeout.
 */
export class PendingConnectionLimit {
  readonly #limits: PendingConnectionLimits;
  readonly #pendingBySource = new Map<string, number>();
  #pending = 0;

  constructor(limits: PendingConnectionLimits) {
    this.#limits = limits;
  }

  get pending(): number {
    return this.#pending;
  }

  /** Takes a slot until the result is disposed. `address` is the peer's IP address. Throws AtlsError `atls-busy`. */
  acquire(address: string): Disposable {
    const source = holderOf(address);
    const fromSource = this.#pendingBySource.get(source) ?? 0;
    const { maxPending, maxPendingPerSource } = this.#limits;
    if (fromSource >= maxPendingPerSource) {
      throw new AtlsError(
        'atls-busy',
        `accepting a connection from ${address}: ${fromSource} attestations from this source are pending`,
      );
    }
    if (this.#pending >= maxPending) {
      throw new AtlsError(
        'atls-busy',
        `accepting a connection from ${address}: ${this.#pending} attestations are pending`,
      );
    }
    this.#pending++;
    this.#pendingBySource.set(source, fromSource + 1);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#leave(source);
        held = false;
      },
    };
  }

  #leave(source: string): void {
    this.#pending--;
    const left = (this.#pendingBySource.get(source) ?? 0) - 1;
    if (left <= 0) this.#pendingBySource.delete(source);
    else this.#pendingBySource.set(source, left);
  }
}
