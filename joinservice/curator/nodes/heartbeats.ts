import type { Clock } from '../../../internal/clock/index.ts';
import {
  absent,
  EtcdError,
  present,
  put,
  unchanged,
  type Entry,
  type KeySpace,
} from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import { CuratorError } from '../errors.ts';

/** A node without a heartbeat for this long is not alive. etcd expires leases twice a second. */
export const HEARTBEAT_TIMEOUT_MS = 15_000;
/** Three heartbeats fit into the timeout, so that one may be lost. */
export const HEARTBEAT_INTERVAL_MS = 5_000;

/**
 * Heartbeats of nodes as keepalives of etcd leases, which write nothing. The heartbeat of a node is a key that is
 * bound to a lease. Every curator reads the lease from the key, so that a node may use another curator at any time.
 */
export class Heartbeats {
  readonly #ports: { readonly etcd: KeySpace; readonly clock: Clock };
  /** A cache of the leases to which the heartbeat keys are bound. */
  readonly #leases = new Map<string, bigint>();

  constructor(ports: { readonly etcd: KeySpace; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /** Records a heartbeat. @throws CuratorError `curator-not-member` if the node has no record */
  async renew(nodeId: string, signal: AbortSignal): Promise<void> {
    const known = this.#leases.get(nodeId);
    if (known !== undefined && (await this.#keepAlive(known, signal))) return;
    let lease: bigint | undefined;
    while (lease === undefined) {
      const found = await this.#ports.etcd.get(records.heartbeat.key(nodeId), { signal });
      lease =
        found !== undefined && (await this.#keepAlive(found.leaseId, signal))
          ? found.leaseId
          : await this.#start(nodeId, found, signal);
    }
    this.#leases.set(nodeId, lease);
  }

  /** Called after the stream of this node has ended. The lease of the node stays until it expires. */
  forget(nodeId: string): void {
    this.#leases.delete(nodeId);
  }

  async #keepAlive(lease: bigint, signal: AbortSignal): Promise<boolean> {
    return lease !== 0n && (await this.#ports.etcd.keepLeaseAlive(lease, { signal })) !== undefined;
  }

  /**
   * Binds the key of the node to a new lease. A node can start any number of streams at once, and only one of them writes.
   * @param found the key as it was read; undefined without one
   * @returns undefined if another call was faster
   */
  async #start(nodeId: string, found: Entry | undefined, signal: AbortSignal): Promise<bigint | undefined> {
    const key = records.heartbeat.key(nodeId);
    const nodeKey = records.node.key(nodeId);
    const lease = await this.#ports.etcd.grantLease(HEARTBEAT_TIMEOUT_MS / 1000, { signal });
    const value = records.heartbeat.encode({ version: 1, sinceMs: this.#ports.clock.nowMs() });
    // The commit requires that the node has a record, so that a deleted node does not leave a key behind.
    const result = await this.#ports.etcd.commit(
      {
        when: [present(nodeKey), found === undefined ? absent(key) : unchanged(found)],
        then: [put(key, value, lease)],
        otherwiseGet: [nodeKey],
      },
      { signal },
    );
    if (result.kind === 'committed') return lease;
    await this.#ports.etcd.revokeLease(lease, { signal }).catch((error: unknown) => {
      // other etcd errors are ignored, because the lease expires without a revocation
      if (!(error instanceof EtcdError)) throw error;
    });
    if (result.found.length > 0) return undefined;
    throw new CuratorError('curator-not-member', `recording a heartbeat of node ${nodeId}: no such node`);
  }
}
