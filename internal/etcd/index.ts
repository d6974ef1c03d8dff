/**
 * Port: etcd v3, our own typed client. Linearizable reads, writes as transactions, watches that survive broken
 * connections and say so, re-list after compaction; leases, members, access control.
 *
 * ```
 * EtcdClient ── KeySpace (get, list, commit, watch, leases) ── Namespace hides a prefix
 *     ├── members, maintenance, access        for root
 *     └── EtcdConnection: one mTLS channel per member, the next one when one fails
 * ```
 */
export type { EtcdUser, Permission } from './access-control.ts';
export { EtcdClient } from './client.ts';
export type { EtcdOptions } from './connection.ts';
export { EtcdError, etcdErrors, type EtcdErrorCode } from './errors.ts';
export {
  absent,
  present,
  put,
  remove,
  unchanged,
  type CallOptions,
  type Change,
  type Condition,
  type Entry,
  type KeySpace,
  type Listing,
  type Transaction,
  type TransactionResult,
  type WatchEvent,
  type WatchOptions,
  type Write,
} from './key-space.ts';
export type { Alarm, MemberStatus } from './maintenance.ts';
export type { Member } from './members.ts';
export { readMemberGauges, type MemberGauges } from './metrics.ts';
export { Namespace } from './namespace.ts';
