import { describeError, findCoded } from '../../../internal/errors/index.ts';
import { copyPlaceOf, copyPrefixOf, type ScheduleCertificate } from '../../../internal/backup/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { Namespace, remove, type KeySpace } from '../../../internal/etcd/index.ts';
import type { StreamPort } from '../../../internal/file/index.ts';
import { ObjectStore, type StoreCredentials } from '../../../internal/objectstore/index.ts';
import { BACKUP_COPIES_PREFIX, CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import type { Runnable } from '../../../internal/supervisor/index.ts';
import type { RoleValueWriters } from '../../roleserve/index.ts';
import type { BackupRing } from './backup-ring.ts';
import { CopyDirectory } from './copy-directory.ts';
import type { CopyTarget } from './copy-target.ts';
import { StoreCopies } from './store-copies.ts';
import { listKeptBackups, readSchedule } from './stored-schedule.ts';
import { requireCurrent, type ScheduleTrust } from './verify-schedule.ts';
import { MAX_MESSAGE } from './schedule-worker.ts';

const EVERY_MS = 30_000;

/** Inputs and ports (injected dependencies) of the copies of scheduled backups. */
export interface CopyWorkerOptions extends ScheduleTrust {
  readonly nodeId: string;
  readonly writes: Pick<RoleValueWriters, 'backupCopies'>;
  readonly commands: CommandRunner;
  readonly streams: Pick<StreamPort, 'readChunks'>;
  readonly ring: Pick<BackupRing, 'kept'>;
  /** The access key of the S3-compatible store of the schedule. @throws ObjectStoreError `objectstore-credentials-invalid` */
  readonly readStoreCredentials: (signal: AbortSignal) => Promise<StoreCredentials>;
  /** The state etcd with root credentials, while the local member runs. */
  readonly stateEtcd: () => KeySpace | undefined;
}

/**
 * Copies the proved backups of this node to the directory or the store that the schedule names, if any, and records
 * which copies exist. If the target is not available, records a failure and delays no backup; the missing copies are
 * made when the target is back.
 * @param open resolves when this node is a member
 */
export function backupCopyWorker(open: (signal: AbortSignal) => Promise<CopyWorkerOptions>): Runnable {
  return async (scope) => {
    scope.healthy();
    scope.waiting('the membership of this node');
    const options = await open(scope.signal);
    for (;;) {
      scope.waiting(undefined);
      const why = await copyOnce(options, scope.signal).catch((error: unknown) => {
        scope.signal.throwIfAborted();
        return describeError(error);
      });
      scope.waiting(why);
      await options.clock.sleep(EVERY_MS, scope.signal);
    }
  };
}

/**
 * Copies the missing backups. Resolves to a text that names the next event for which the worker waits.
 * @throws the error that prevented the copy, after it was recorded
 */
async function copyOnce(options: CopyWorkerOptions, signal: AbortSignal): Promise<string> {
  const { nodeId, ring, clock } = options;
  const { backupCopies } = options.writes;
  const state = options.stateEtcd();
  if (state === undefined) {
    backupCopies.set(undefined);
    return 'the control plane of this node';
  }
  const etcd = new Namespace(state, CLUSTER_PREFIX);
  const schedule = await readSchedule(options, etcd, signal);
  if (schedule !== undefined) requireCurrent(options, schedule.certificate);
  const key = records.backupCopies.key(nodeId);
  const { record: before } = await records.backupCopies.read(etcd, key, signal);
  const directory = schedule && copyPlaceOf(schedule.certificate);
  if (directory === undefined || schedule?.certificate.nodeIds.includes(nodeId) !== true) {
    backupCopies.set(undefined);
    if (before !== undefined) await etcd.commit({ when: [], then: [remove(key)] }, { signal });
    return 'a schedule of backups that names a target for copies';
  }
  await forgetOthers(etcd, schedule.certificate.nodeIds, signal);
  const own = (await listKeptBackups(etcd, signal)).filter(
    (each) => each.nodeId === nodeId && each.provedMs !== undefined,
  );
  const known = before?.directory === directory ? before.names : [];
  const write = async (found: Pick<NonNullable<typeof before>, 'names' | 'failure'>): Promise<void> => {
    const record = { version: 1 as const, nodeId, directory, ...found };
    const isSame =
      before?.directory === directory &&
      before.names.join() === found.names.join() &&
      before.failure?.code === found.failure?.code;
    if (isSame) return;
    await etcd.commit({ when: [], then: [records.backupCopies.put(key, record)] }, { signal });
  };
  let names: readonly string[];
  try {
    const { keep } = schedule.certificate;
    const target = await openTarget(options, schedule.certificate, signal);
    names = await target.update(ring.kept, { backups: own, keep, verified: known }, signal);
  } catch (error) {
    signal.throwIfAborted();
    backupCopies.set({ isFailing: true });
    const code = findCoded(error)?.code ?? 'internal';
    const message = describeError(error).slice(0, MAX_MESSAGE);
    await write({ names: [...known], failure: { timeMs: Math.round(clock.nowMs()), code, message } });
    throw error;
  }
  backupCopies.set({ isFailing: false });
  await write({ names: [...names] });
  return 'the next backup';
}

async function openTarget(
  options: CopyWorkerOptions,
  { copyTo, copyToStore }: ScheduleCertificate,
  signal: AbortSignal,
): Promise<CopyTarget> {
  const { commands, streams, clock, clusterId, nodeId } = options;
  if (copyToStore === undefined)
    return new CopyDirectory(commands, { directory: copyTo ?? '', clusterId, nodeId });
  const credentials = await options.readStoreCredentials(signal);
  const store = new ObjectStore({ target: copyToStore, credentials, streams, clock });
  return new StoreCopies(store, copyPrefixOf(copyToStore, clusterId, nodeId));
}

/**
 * Deletes the records of nodes that copy nothing any more: removed ones, and former control planes. The copies of their backups
 * stay.
 */
async function forgetOthers(etcd: KeySpace, named: readonly string[], signal: AbortSignal): Promise<void> {
  const { entries } = await etcd.list(BACKUP_COPIES_PREFIX, { signal });
  for (const { key, value } of entries) {
    const { nodeId } = records.backupCopies.decode(key, value);
    const { record } = await records.node.read(etcd, records.node.key(nodeId), signal);
    if (record !== undefined && isControlPlane(record.roles) && named.includes(nodeId)) continue;
    await etcd.commit({ when: [], then: [remove(key)] }, { signal });
  }
}
