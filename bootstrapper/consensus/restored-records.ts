import { remove, unchanged, type KeySpace, type Write } from '../../internal/etcd/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import {
  ADDRESSES_PREFIX,
  BACKUP_SCHEDULE_KEY,
  BACKUPS_PREFIX,
  CLUSTER_KEY,
  DOCUMENTS_PREFIX,
  IDENTITIES_PREFIX,
  INIT_RESULT_KEY,
  JOINS_PREFIX,
  KEPT_PREFIX,
  keyIdentityOf,
  KEYS_KEY,
  nodeNameKey,
  NODES_PREFIX,
  OPERATORS_PREFIX,
  OWNERSHIP_KEY,
  parseNodeKey,
  planRemoval,
  readRemovals,
  records,
  removedIdentities,
  removedKeysOf,
  type ClusterRecord,
  type KnownMachine,
  type NodeRecord,
} from '../../internal/records/index.ts';
import { isMemberState, isOnlyWorker } from '../../internal/role/index.ts';
import { firstWrites, type NewCluster } from './cluster-records.ts';
import { ConsensusError } from './errors.ts';
import { deleteAll, writeInParts } from './write-in-parts.ts';

const REMOVED_BY = 'restore';

/**
 * Records of the cluster that was backed up: its members, and the documents that its owners had signed. They are
 * replaced, because the restored cluster has only one member, and the owner signs again for the new epoch.
 */
const REPLACED_PREFIXES = [
  NODES_PREFIX,
  'node-names/',
  ADDRESSES_PREFIX,
  IDENTITIES_PREFIX,
  JOINS_PREFIX,
  OPERATORS_PREFIX,
  DOCUMENTS_PREFIX,
  BACKUPS_PREFIX,
  'slots/',
  KEPT_PREFIX,
];
/**
 * No node follows the schedule of backups, because it names the control planes of the old cluster. It stays so that `cluster doctor`
 * says so until an owner signs it again.
 */
const KEPT_KEYS = [BACKUP_SCHEDULE_KEY];
const REPLACED_KEYS = [INIT_RESULT_KEY, OWNERSHIP_KEY];

/** A worker that still runs with its node key of the backup. */
export interface KeptWorker {
  readonly nodeId: string;
  readonly name: string;
}

/**
 * Changes the records of a restored state etcd so that the cluster has this node as its only control plane, in a new epoch.
 * Every other machine of the old cluster, and every machine that the owner knows beside them, is recorded as removed: it is refused until an owner readmits it.
 * Only the workers that the owner has named stay members, and may report once which machines they know as removed. May be repeated after any crash; the cluster record is written last.
 * @throws ConsensusError `consensus-other-cluster`, and `consensus-worker-not-kept` before anything is changed
 */
export async function restoreClusterRecords(
  etcd: KeySpace,
  created: NewCluster,
  options: {
    readonly epoch: number;
    /** Machines that the backup may not know. */
    readonly knownMachines?: readonly KnownMachine[] | undefined;
    readonly keptWorkers?: readonly KeptWorker[] | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ClusterRecord> {
  const { epoch, knownMachines = [], keptWorkers = [], signal } = options;
  const firstNodeId = nodeIdOf(created.node.pubKeyDer);
  const { entry, record: before } = await records.cluster.read(etcd, CLUSTER_KEY, signal);
  const { record: keys } = await records.keys.read(etcd, KEYS_KEY, signal);
  // The record names the CA with which the cluster was created. After a rotation of the shared keys, the cluster uses
  // another CA.
  const isOtherCa = before?.caPem !== created.caPem && keys === undefined;
  if (entry === undefined || before?.clusterId !== created.clusterId || isOtherCa)
    throw new ConsensusError(
      'consensus-other-cluster',
      `restoring cluster ${created.clusterId}: the snapshot has the records of ${before?.clusterId ?? 'no cluster'}`,
    );
  if (before.epoch === epoch && before.firstNodeId === firstNodeId) return before;
  if (before.epoch >= epoch)
    throw new ConsensusError(
      'consensus-other-cluster',
      `restoring cluster ${created.clusterId} in epoch ${epoch}: the snapshot is of epoch ${before.epoch}`,
    );
  const kept = await readKeptWorkers(etcd, created, { keptWorkers, knownMachines, signal });
  await recordRemovals(etcd, created, kept, signal);
  await recordKnownMachines(etcd, created, { knownMachines, signal });
  await deleteAll(etcd, REPLACED_PREFIXES, { except: [...KEPT_KEYS, ...kept.flatMap(keysOf)], signal });
  await writeInParts(etcd, kept.map(keptRecord), signal);
  const { clusterName, caPem } = created;
  const cluster: ClusterRecord = { ...before, clusterName, caPem, epoch, firstNodeId };
  const then = [...REPLACED_KEYS.map(remove), ...firstWrites(created, cluster)];
  const result = await etcd.commit({ when: [unchanged(entry)], then }, { signal });
  if (result.kind === 'committed') return cluster;
  throw new ConsensusError('consensus-other-cluster', 'restoring: somebody else changed the cluster record');
}

/**
 * The records of the workers that stay members.
 * @throws ConsensusError `consensus-worker-not-kept`
 */
async function readKeptWorkers(
  etcd: KeySpace,
  { node }: NewCluster,
  options: {
    readonly keptWorkers: readonly KeptWorker[];
    readonly knownMachines: readonly KnownMachine[];
    readonly signal: AbortSignal;
  },
): Promise<readonly NodeRecord[]> {
  const { keptWorkers, knownMachines, signal } = options;
  const refused = new Set(knownMachines.flatMap(({ nodeId, identity }) => [nodeId, identity]));
  return Promise.all(
    keptWorkers.map(async ({ nodeId, name }) => {
      const { record } = await records.node.read(etcd, records.node.key(nodeId), signal);
      const why = (): string | undefined => {
        if (record === undefined || record.name !== name) return 'the backup has no such node';
        if (!isOnlyWorker(record.roles)) return 'it is not only a worker';
        if (!isMemberState(record.state)) return 'it was not a member, or it was being removed';
        const identities = removedIdentities(record, () => true);
        if ([nodeId, ...identities].some((each) => refused.has(each))) return 'it was removed';
        const isFirst = identities.includes(node.admission?.identity ?? '') || name === node.name;
        return isFirst ? 'it has the machine or the name of the first node' : undefined;
      };
      const reason = why();
      if (record === undefined || reason !== undefined)
        throw new ConsensusError(
          'consensus-worker-not-kept',
          `keeping worker ${name} (${nodeId}): ${reason}`,
        );
      return record;
    }),
  );
}

/** Permits the report of a kept worker. No worker of an earlier restore has such a record any more. */
function keptRecord({ nodeId }: NodeRecord): Write {
  return records.keptWorker.put(records.keptWorker.key(nodeId), { version: 1, merged: 0, isDone: false });
}

/** The keys of the records of a member. */
function keysOf({ nodeId, name, admission }: NodeRecord): readonly string[] {
  const identity = admission === undefined ? [] : [records.identity.key(admission.identity)];
  return [records.node.key(nodeId), nodeNameKey(name), ...identity];
}

/**
 * The owner has chosen this machine for the restore, so an earlier removal no longer applies to it. If the snapshot has
 * its node record, that record is of the same machine.
 */
async function recordRemovals(
  etcd: KeySpace,
  { node, nowMs }: NewCluster,
  kept: readonly Pick<NodeRecord, 'nodeId'>[],
  signal: AbortSignal,
): Promise<void> {
  const keptIds = new Set(kept.map(({ nodeId }) => nodeId));
  const own = new Set([keyIdentityOf(node.pubKeyDer), node.admission?.identity]);
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const members: NodeRecord[] = entries
    .filter(({ key }) => parseNodeKey(key)?.part === 'record')
    .map(({ key, value }) => records.node.decode(key, value))
    .filter(({ nodeId }) => !keptIds.has(nodeId));
  for (const member of members) {
    const identities = removedIdentities(member, () => true).filter((identity) => !own.has(identity));
    const { when, then } = planRemoval(await readRemovals(etcd, identities, signal), member, {
      ...{ nowMs, removedBy: REMOVED_BY },
      keys: removedKeysOf(member, undefined),
    });
    await etcd.commit({ when, then }, { signal });
  }
  const ended = [...own].flatMap((identity) =>
    identity === undefined ? [] : [remove(records.removed.key(identity))],
  );
  await etcd.commit({ when: [], then: ended }, { signal });
}

/** A removal that is on record already stays as it is. */
async function recordKnownMachines(
  etcd: KeySpace,
  { node, nowMs }: NewCluster,
  {
    knownMachines,
    signal,
  }: { readonly knownMachines: readonly KnownMachine[]; readonly signal: AbortSignal },
): Promise<void> {
  const own = new Set([keyIdentityOf(node.pubKeyDer), node.admission?.identity]);
  for (const machine of knownMachines.filter(({ identity }) => !own.has(identity))) {
    const before = await readRemovals(etcd, [machine.identity], signal);
    if (before.some(({ record }) => record !== undefined)) continue;
    const { when, then } = planRemoval(before, machine, { nowMs, removedBy: REMOVED_BY });
    await etcd.commit({ when, then }, { signal });
  }
}
