import { isIPv6 } from 'node:net';
import { AtlsError } from './errors.ts';

export interface PendingConnectionLimits {
  /** Connections that have not proved themselves yet, in total and from one source. */
  readonly maxPending: number;
  readonly maxPendingPerSource: number;
}

/** 128 × 64 KiB of evidence: an attacker makes this end hold 8 MiB and no more. */
export const PENDING_CONNECTION_LIMITS: PendingConnectionLimits = {
  maxPending: 128,
  maxPendingPerSource: 16,
};

/**
 * Counts the connections that are still proving themselves. A source that holds its share is turned away before
 * TLS costs anything, so the slots of all others stay free. Nobody is evicted: that would hit who waits for a
 * slow TPM; a mute peer goes by its timer.
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

  /** Takes a slot until it is disposed, or throws `atls-busy`. `address` is the peer's IP address. */
  acquire(address: string): Disposable {
    const source = sourceOf(address);
    const fromSource = this.#pendingBySource.get(source) ?? 0;
    const { maxPending, maxPendingPerSource } = this.#limits;
    if (fromSource >= maxPendingPerSource) {
      throw new AtlsError(
        'atls-busy',
        `admitting ${address}: ${fromSource} attestations from there are pending`,
      );
    }
    if (this.#pending >= maxPending) {
      throw new AtlsError('atls-busy', `admitting ${address}: ${this.#pending} attestations are pending`);
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

/** One IPv4 address, or one IPv6 /64: the least that one holder of IPv6 has is all of that (RFC 6177). */
function sourceOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '').replace(/%.*$/, '');
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  const known = tail === undefined || tail === '' ? 0 : tail.split(':').length;
  while (tail !== undefined && groups.length + known < 8) groups.push('0');
  const all = tail === undefined || tail === '' ? groups : [...groups, ...tail.split(':')];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}
