import type { Clock } from '../../../internal/clock/index.ts';
import { EtcdError, present, put, type KeySpace } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import { CuratorError } from '../errors.ts';

/** A node is late when it has not beaten for this long. etcd expires leases twice a second. */
export const HEARTBEAT_TIMEOUT_MS = 15_000;
/** Three beats fit into the timeout: one may be lost and nothing flaps. */
export const HEARTBEAT_INTERVAL_MS = 5_000;

/**
 * Proofs of life as lease keepalives: a beat writes nothing. A node's heartbeat is a key that lives as long as its
 * lease; the lease's number is the key's, so a node may go to another curator between any two beats.
 */
export class Heartbeats {
  readonly #etcd: KeySpace;
  readonly #clock: Clock;
  /** Only a shortcut: the truth is the lease that the key is bound to. */
  readonly #leases = new Map<string, bigint>();

  constructor(options: { readonly etcd: KeySpace; readonly clock: Clock }) {
    this.#etcd = options.etcd;
    this.#clock = options.clock;
  }

  async renew(nodeId: string, signal: AbortSignal): Promise<void> {
    const known = this.#leases.get(nodeId);
    if (known !== undefined && (await this.#keepAlive(known, signal))) return;
    const found = (await this.#etcd.get(records.heartbeat.key(nodeId), { signal }))?.leaseId;
    const lease =
      found !== undefined && (await this.#keepAlive(found, signal))
        ? found
        : await this.#start(nodeId, signal);
    this.#leases.set(nodeId, lease);
  }

  /** This node's stream has ended; its lease runs on by itself. */
  forget(nodeId: string): void {
    this.#leases.delete(nodeId);
  }

  async #keepAlive(lease: bigint, signal: AbortSignal): Promise<boolean> {
    return lease !== 0n && (await this.#etcd.keepLeaseAlive(lease, { signal })) !== undefined;
  }

  async #start(nodeId: string, signal: AbortSignal): Promise<bigint> {
    const lease = await this.#etcd.grantLease(HEARTBEAT_TIMEOUT_MS / 1000, { signal });
    const value = records.heartbeat.encode({ version: 1, sinceMs: this.#clock.nowMs() });
    const write = put(records.heartbeat.key(nodeId), value, lease);
    // Only a node on record may beat: a deleted one must not leave a key behind.
    const result = await this.#etcd.commit(
      { when: [present(records.node.key(nodeId))], then: [write] },
      { signal },
    );
    if (result.kind === 'committed') return lease;
    await this.#etcd.revokeLease(lease, { signal }).catch((error: unknown) => {
      if (!(error instanceof EtcdError)) throw error; // it expires by itself in any case
    });
    throw new CuratorError('curator-not-member', `beating for node ${nodeId}: it has no record`);
  }
}
