/**
 * Domain layer: the cluster's own records in etcd, below `/cluster/`. The bootstrapper writes the first ones, the curator
 * all others.
 *
 * ```
 * meta/cluster          the cluster: id, epoch, CA           written once
 * meta/settings         how every node runs Kubernetes     first node
 * meta/ownership        the owner's signature              first node, when acknowledged
 * meta/audit            the end of the audit chain         with each decision
 * meta/audit-requests   the end of the chain of requests   joinservice
 * meta/keys             how far a rotation of keys is      curator, then control planes
 * nodes/ID/record       what was decided about a node      curator
 * nodes/ID/status       status report of a node            curator, for the node
 * nodes/ID/heartbeat    exists while its lease is valid    curator, for the node
 * node-names/NAME       → ID, so that names are unique       with the node
 * control-plane-addresses/IP → ID, also while it is off    with the ticket of a control plane
 * operators/KEY         an operator                        curator
 * configuration/current the operator's document              curator
 * attestation/collateral uploaded by an operator         curator
 * init/result           for the owner                      first node
 * mutations/CALLER/KEY  a mutation that was done, on a lease with each mutation
 * audit/SEQ             decisions, a hash chain            with each decision
 * audit-requests/SEQ    refused and waiting machines       joinservice
 * joins/ID              machines that asked to join        joinservice, curator
 * identities/IDENTITY   → ID: one membership per machine   with the node
 * removed/IDENTITY      a machine that was removed       curator
 * kept/workers/ID       a worker that a restore kept     first node, then curator
 * kept/merged           number of removals that kept workers reported
 * backups/schedule      signed by an owner               curator; every reader verifies it
 * backups/head          number of the last backup       control planes
 * backups/claim         who takes a backup now, on a lease
 * backups/kept/SEQ      a backup on a control plane       the control plane
 * documents/KIND/NAME   signed by an owner               curator; every reader verifies it
 * traces/ID             checks of a machine’s join       joinservice
 * slots/control-plane/  queue for changes of etcd members  control planes
 * ```
 */
export { RecordError } from './errors.ts';
export {
  ADDRESSES_PREFIX,
  AUDIT_HEAD_KEY,
  AUDIT_PREFIX,
  BACKUP_CLAIM_KEY,
  BACKUP_HEAD_KEY,
  BACKUP_SCHEDULE_KEY,
  BACKUPS_PREFIX,
  auditHeadKey,
  auditKey,
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  COLLATERAL_KEY,
  CONFIGURATION_KEY,
  documentKey,
  DOCUMENTS_PREFIX,
  OWNERS_PREFIX,
  IDENTITIES_PREFIX,
  INIT_RESULT_KEY,
  JOINS_PREFIX,
  KEPT_PREFIX,
  BACKUP_COPIES_PREFIX,
  KEPT_BACKUPS_PREFIX,
  KEYS_KEY,
  MERGED_REMOVALS_KEY,
  nodeNameKey,
  NODES_PREFIX,
  OPERATORS_PREFIX,
  OWNERSHIP_KEY,
  parseNodeKey,
  READMISSIONS_PREFIX,
  records,
  REMOVED_PREFIX,
  SETTINGS_KEY,
  type AuditLogName,
  type NodePart,
  type RecordKind,
  type StoredRecord,
} from './record-kinds.ts';
export {
  BACKUP_NAME,
  proofPlaceShape,
  type BackupHeadRecord,
  type BackupCopiesRecord,
  type BackupRecord,
} from './backup-shapes.ts';
export {
  type EvidenceProfile,
  type IdentityRecord,
  type JoinRecord,
  type JoinRecordState,
  type MachineRecord,
  type NodeRecord,
  type RemovedRecord,
  type StatusRecord,
  type TraceFactRecord,
  type TraceRecord,
} from './node-shapes.ts';
export { knownMachineShape, MAX_KNOWN_MACHINES, type KnownMachine } from './known-machine.ts';
export {
  OPERATOR_NAME,
  type AuditHeadRecord,
  type AuditRecord,
  type ClusterRecord,
  type CollateralRecord,
  type KeysRecord,
  type OperatorRecord,
  type OwnershipRecord,
  type SettingsRecord,
} from './record-shapes.ts';
export {
  SLOT_INTENT_KEY,
  SLOT_PACE_KEY,
  SLOT_QUEUE_PREFIX,
  slotPositions,
  type SlotPosition,
} from './control-plane-slot.ts';
export {
  digitsOf,
  isRemovalNamed,
  isSharedIdentity,
  keyIdentityOf,
  MIN_PREFIX,
  planRemoval,
  removedKeysOf,
  readRemovals,
  removedIdentities,
  type RemovalEntry,
} from './removals.ts';
