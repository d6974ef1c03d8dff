import { SCHEDULED_STEP_LOG, type ScheduledStep } from '../../../internal/backup/index.ts';
import { MINUTE_MS } from '../../../internal/clock/index.ts';
import { describeError, findCoded } from '../../../internal/errors/index.ts';
import { Namespace, remove, type KeySpace } from '../../../internal/etcd/index.ts';
import {
  BACKUP_HEAD_KEY,
  CLUSTER_PREFIX,
  NODES_PREFIX,
  records,
  type BackupRecord,
} from '../../../internal/records/index.ts';
import type { Runnable, Scope } from '../../../internal/supervisor/index.ts';
import { membersOnRecord } from '../../membership/index.ts';
import type { RoleValueWriters } from '../../roleserve/index.ts';
import { withBackupClaim, type BackupClaim } from './backup-claim.ts';
import { BackupTaskError } from '../errors.ts';
import { differingEtcd } from './own-content.ts';
import { newestProved, planBackup, planRing } from './plan-backup.ts';
import { takeScheduledBackup, type ScheduledBackupOptions, type ScheduledEtcd } from './scheduled-backup.ts';
import { listKeptBackups, readSchedule, type StoredSchedule } from './stored-schedule.ts';
import { requireCurrent, type ScheduleTrust } from './verify-schedule.ts';

const TICK_MS = 10_000;
/** The longest error message in a report. */
export const MAX_MESSAGE = 1_000;
const SEQ_DIGITS = 16;
/** The same failure is not recorded again within this time. */
const NOTE_AGAIN_MS = 5 * 60_000;

/** An etcd client of the state etcd, with its key space. */
export type StateEtcd = ScheduledEtcd & KeySpace;

/** Inputs and ports (injected dependencies) of scheduled backups. */
export interface ScheduleWorkerOptions extends ScheduledBackupOptions, ScheduleTrust {
  /** Clients with root credentials of both local members, while they run. */
  readonly etcdMembers: () => { readonly state: StateEtcd; readonly kubernetes: ScheduledEtcd } | undefined;
  /** The worker publishes the state of the cluster's backups here; undefined without a schedule. */
  readonly writes: Pick<RoleValueWriters, 'scheduledBackups'>;
  /** Removes the files of a throwaway etcd that an earlier run of the agent left behind. */
  readonly cleanUp: (signal: AbortSignal) => Promise<void>;
}

/**
 * Takes the scheduled backups of the cluster together with the other control planes: each time, one of them takes the
 * backup (`planBackup`). Records every failure in the cluster, so that `cluster doctor` shows it, and tries again
 * later.
 * @param open resolves when this node is a member
 */
export function backupScheduleWorker(
  open: (signal: AbortSignal) => Promise<ScheduleWorkerOptions>,
): Runnable {
  return async (scope) => {
    scope.healthy();
    scope.waiting('the membership of this node');
    const options = await open(scope.signal);
    await options.cleanUp(scope.signal);
    await options.ring.clean();
    const own: OwnAttempts = {};
    for (;;) {
      const why = await runOnce(options, own, scope).catch((error: unknown) => {
        scope.signal.throwIfAborted();
        return `taking a backup: ${describeError(error)}`;
      });
      scope.waiting(why);
      await options.clock.sleep(TICK_MS, scope.signal);
    }
  };
}

/** What this agent remembers of its attempts. The record of the last failure may be that of another control plane. */
interface OwnAttempts {
  failedMs?: number | undefined;
}

/** Takes one backup if it is due. Resolves to a text that names the next event for which the worker waits. */
async function runOnce(options: ScheduleWorkerOptions, own: OwnAttempts, scope: Scope): Promise<string> {
  const { signal } = scope;
  const etcds = options.etcdMembers();
  if (etcds === undefined) return 'the control plane of this node';
  const etcd = new Namespace(etcds.state, CLUSTER_PREFIX);
  try {
    const schedule = await readSchedule(options, etcd, signal);
    if (schedule !== undefined) return await follow(options, { etcd, etcds, schedule, own }, scope);
    options.writes.scheduledBackups.set(undefined);
    return 'a schedule of backups';
  } catch (error) {
    signal.throwIfAborted();
    // If the failure cannot be recorded, the original error still counts.
    await noteFailure(options, etcd, error, scope).catch(() => signal.throwIfAborted());
    throw error;
  }
}

interface Following {
  readonly etcd: KeySpace;
  readonly etcds: NonNullable<ReturnType<ScheduleWorkerOptions['etcdMembers']>>;
  readonly schedule: StoredSchedule;
  readonly own: OwnAttempts;
}

async function follow(
  options: ScheduleWorkerOptions,
  { etcd, etcds, schedule, own }: Following,
  scope: Scope,
): Promise<string> {
  const { clock, nodeId } = options;
  const { signal } = scope;
  const { certificate, workspace } = schedule;
  const kept = await reconcile(options, etcd, certificate.keep, scope);
  // Also of a schedule that has expired: its end is what an alert has to show.
  publish(options, certificate, kept);
  requireCurrent(options, certificate);
  const head = await records.backupHead.read(etcd, BACKUP_HEAD_KEY, signal);
  const last = head.record?.failure;
  const failedMs = own.failedMs ?? (last?.nodeId === nodeId ? last.timeMs : undefined);
  const inputs = { nowMs: clock.nowMs(), nodeId, schedule: certificate, head: head.record, failedMs, kept };
  const plan = planBackup(inputs);
  if (plan.kind === 'wait') return plan.why;
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const differing = differingEtcd(nodeId, membersOnRecord(entries));
  // The others take the backup. Without a majority nobody does: a new backup would take the place of an old good one.
  if (differing !== undefined)
    return `the ${differing} etcd member of this node differs from the others; see \`cluster doctor\``;
  const { seq } = plan;
  const done = await withBackupClaim({ etcd, clock }, { nodeId, seq, head, signal }, async (claim) => {
    scope.waiting(undefined);
    const onTaken = (record: BackupRecord) => recordBackup(etcd, record, claim);
    const onStep = (step: ScheduledStep): void => scope.log.info(SCHEDULED_STEP_LOG, { step, seq });
    const content = { seq, certificate, workspace, etcds, onStep, onTaken };
    const record = await takeScheduledBackup(options, { ...content, signal: claim.signal });
    await recordBackup(etcd, record, claim);
    const { name, sizeBytes, sha256 } = record;
    scope.log.info('scheduled backup taken and proved', { name, sizeBytes, sha256 });
    return record;
  }).catch((error: unknown) => {
    own.failedMs = clock.nowMs();
    throw error;
  });
  own.failedMs = undefined;
  if (done === undefined) return 'another control plane, which takes a backup';
  publish(options, certificate, await reconcile(options, etcd, certificate.keep, scope));
  return 'the next backup';
}

function publish(
  { writes }: ScheduleWorkerOptions,
  { everyMinutes, issuedMs, endsMs }: StoredSchedule['certificate'],
  kept: readonly BackupRecord[],
): void {
  writes.scheduledBackups.set({
    periodMs: everyMinutes * MINUTE_MS,
    endsMs,
    newestMs: newestProved(kept)?.takenMs ?? issuedMs,
  });
}

/**
 * Records a backup. The record of a proved backup also deletes the record of an earlier failure.
 * @throws BackupTaskError `backup-node-claim-lost`
 */
async function recordBackup(etcd: KeySpace, record: BackupRecord, claim: BackupClaim): Promise<void> {
  const { signal } = claim;
  const { record: head } = await records.backupHead.read(etcd, BACKUP_HEAD_KEY, signal);
  const failure = record.provedMs === undefined ? head?.failure : undefined;
  const written = await etcd.commit(
    {
      when: [claim.held],
      then: [
        records.backup.put(keyOf(record), record),
        records.backupHead.put(BACKUP_HEAD_KEY, {
          version: 1,
          seq: record.seq,
          ...(failure && { failure }),
        }),
      ],
    },
    { signal },
  );
  if (written.kind !== 'committed')
    throw new BackupTaskError('backup-node-claim-lost', `recording backup ${record.name}`);
}

/**
 * Makes the records and the files of this node agree, and deletes the backups that exceed the number to keep. Resolves
 * to all backups of the cluster.
 */
async function reconcile(
  { ring, nodeId, ...trust }: ScheduleWorkerOptions,
  etcd: KeySpace,
  keep: number,
  { log, signal }: Scope,
): Promise<readonly BackupRecord[]> {
  const kept = await forgetRemoved(etcd, await listKeptBackups(etcd, signal), signal);
  const own = kept.filter((each) => each.nodeId === nodeId);
  const names = await ring.list();
  const lost = own.filter(({ name }) => !names.includes(name));
  for (const record of lost) await forget(etcd, record, signal);
  // An agent of an earlier release recorded the proof only in etcd.
  for (const record of own) if (!lost.includes(record)) await ring.keepProof(record);
  const found: BackupRecord[] = [];
  for (const name of names.filter((each) => !own.some((record) => record.name === each))) {
    const record = await ring.describe(name, { ...trust, nodeId }, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      log.warn('a backup on this disk is not used', { name, error: describeError(error) });
      return 'not used' as const;
    });
    if (record === 'not used') continue;
    if (record === undefined) {
      await ring.remove(name);
      continue;
    }
    await etcd.commit({ when: [], then: [records.backup.put(keyOf(record), record)] }, { signal });
    found.push(record);
  }
  const present = [...own.filter((each) => !lost.includes(each)), ...found];
  const deleted = planRing(present, keep);
  for (const record of deleted) {
    await ring.remove(record.name);
    await forget(etcd, record, signal);
  }
  return [
    ...kept.filter((each) => each.nodeId !== nodeId),
    ...present.filter((each) => !deleted.includes(each)),
  ];
}

/** Deletes the records of backups on nodes that are no longer in the cluster: nobody can fetch these. Resolves to the others. */
async function forgetRemoved(
  etcd: KeySpace,
  kept: readonly BackupRecord[],
  signal: AbortSignal,
): Promise<readonly BackupRecord[]> {
  const removed = new Set<string>();
  for (const nodeId of new Set(kept.map((each) => each.nodeId))) {
    const { entry } = await records.node.read(etcd, records.node.key(nodeId), signal);
    if (entry === undefined) removed.add(nodeId);
  }
  for (const record of kept.filter(({ nodeId }) => removed.has(nodeId))) await forget(etcd, record, signal);
  return kept.filter(({ nodeId }) => !removed.has(nodeId));
}

async function forget(etcd: KeySpace, record: BackupRecord, signal: AbortSignal): Promise<void> {
  await etcd.commit({ when: [], then: [remove(keyOf(record))] }, { signal });
}

/** Records why an attempt failed. */
async function noteFailure(
  { clock, nodeId }: ScheduleWorkerOptions,
  etcd: KeySpace,
  error: unknown,
  { log, signal }: Scope,
): Promise<void> {
  const code = findCoded(error)?.code ?? 'internal';
  const message = describeError(error).slice(0, MAX_MESSAGE);
  const head = await records.backupHead.read(etcd, BACKUP_HEAD_KEY, signal);
  const timeMs = Math.round(clock.nowMs());
  const noted = head.record?.failure;
  if (noted?.code === code && Math.abs(timeMs - noted.timeMs) < NOTE_AGAIN_MS) return;
  log.warn('a scheduled backup failed', { code, message });
  const failure = { nodeId, timeMs, code, message };
  const next = { version: 1 as const, seq: head.record?.seq ?? 0, failure };
  // If another control plane has written a newer record meanwhile, that record stays.
  await etcd.commit(
    { when: [head.unchanged], then: [records.backupHead.put(BACKUP_HEAD_KEY, next)] },
    { signal },
  );
}

/** Two nodes may use a number twice after a recovery of etcd, so the node is part of the key. */
function keyOf({ seq, nodeId }: BackupRecord): string {
  return records.backup.key(`${String(seq).padStart(SEQ_DIGITS, '0')}-${nodeId}`);
}
