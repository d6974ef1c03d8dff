/**
 * A typed client of etcd v3: linearizable reads, transactions, watches, leases, members and access control.
 *
 * ```
 * EtcdClient ── KeySpace (get, list, commit, watch, leases) ── Namespace hides a prefix
 *     ├── members, maintenance, access        for the root user
 *     └── EtcdConnection: one mTLS channel per member; fails over to the next one
 * ```
 * A watch survives broken connections, reports the interruption, and lists all keys again after a compaction. `WatchedKey` keeps the
 * value of one key for many readers.
 */
export { answeringMembers } from './answering-members.ts';
export type { EtcdUser } from './access-control.ts';
export { EtcdClient } from './client.ts';
export type { EtcdOptions } from './connection.ts';
export { EtcdError } from './errors.ts';
export {
  absent,
  present,
  put,
  remove,
  unchanged,
  watchKey,
  type CallOptions,
  type Change,
  type Condition,
  type Entry,
  type KeyRange,
  type KeySpace,
  type Listing,
  type Transaction,
  type TransactionResult,
  type WatchEvent,
  type WatchOptions,
  type Write,
} from './key-space.ts';
export type { ContentHash, MemberStatus } from './maintenance.ts';
export type { Member } from './members.ts';
export { readMemberGauges } from './metrics.ts';
export { Namespace } from './namespace.ts';
export { WatchedKey, type WatchPorts } from './watched-key.ts';
