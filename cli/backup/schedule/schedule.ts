import { createHash } from 'node:crypto';
import {
  encodeBackupCertificate,
  isCopyDirectory,
  MAX_EVERY_MINUTES,
  MIN_EVERY_MINUTES,
  recoveryKeyOfOwner,
  signBackupCertificate,
  type ScheduleCertificate,
} from '../../../internal/backup/index.ts';
import { formatDuration, MINUTE_MS } from '../../../internal/clock/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { AppError } from '../../app/errors.ts';
import { callCurator, newMutation, readCaller, saveKnownCurators } from '../../cluster/index.ts';
import { isOwnerOnRecord } from '../../operators/index.ts';
import { confirmLoss, renderLosses } from '../../loss/index.ts';
import { BackupCommandError } from '../errors.ts';
import { ownClusterOf } from '../list-backups.ts';
import { lossesOfReplacement } from './schedule-losses.ts';
import {
  commandOfSchedule,
  isSignedByOwner,
  readClusterBackups,
  renderSchedule,
  scheduleViewOf,
} from './schedule-view.ts';
import {
  copyStoreFrom,
  isStoreUrl,
  readStoreAccess,
  refuseStoreFlags,
  type StoreFlags,
} from '../store/store-access.ts';
import { deleteStoreSecret, writeStoreSecret } from '../store/store-secret.ts';
import { sealWorkspacePart } from '../workspace-part.ts';

/** Flags of `cluster backup schedule set`. */
export interface ScheduleOptions {
  readonly everyMs: number;
  /** How many proved backups each control plane keeps. */
  readonly keep: number;
  /** For how long the owner's signature on the schedule is valid. Afterwards control planes take no backups. */
  readonly validMs: number;
  /** Where each control plane copies its backups: a directory on its file system, or "s3://BUCKET/PREFIX". */
  readonly copyTo?: string | undefined;
  /** How a store in `copyTo` is reached. */
  readonly store?: StoreFlags | undefined;
  /** Further recovery keys ("age1…") besides that of the owner. */
  readonly recipients: readonly string[];
  readonly dryRun: boolean;
  /** Accept that the earlier schedule loses something. */
  readonly yes: boolean;
}

/**
 * `cluster backup schedule set`: an owner signs how often and until when backups are taken, which control planes take
 * them, and which recovery keys open them. Replaces an earlier schedule, and asks if this one drops something of it.
 */
export async function runScheduleSet(context: CommandContext, options: ScheduleOptions): Promise<void> {
  const { host, ports } = context;
  const everyMinutes = Math.round(options.everyMs / MINUTE_MS);
  if (everyMinutes < MIN_EVERY_MINUTES || everyMinutes > MAX_EVERY_MINUTES)
    throw new BackupCommandError(
      'backup-schedule-period',
      `signing a schedule of backups: invalid period ${formatDuration(options.everyMs)}`,
    );
  const target = await copyTargetOf(context, options);
  const credentials =
    target.copyToStore === undefined ? undefined : await readStoreAccess(context, options.store ?? {});
  const caller = await readCaller(context);
  if (!(await isOwnerOnRecord(context, caller)))
    throw new BackupCommandError('backup-not-owner', 'signing a schedule of backups: requires role owner');
  const info = await callCurator(context, ({ curator }) => curator.getClusterInfo({}));
  const { keyPem, vouchers, clusterId } = caller;
  const recipients = [...new Set([recoveryKeyOfOwner(keyPem).recipient, ...options.recipients])];
  const workspace = await sealWorkspacePart(context, recipients);
  const workspaceSha256 =
    workspace.length === 0 ? undefined : createHash('sha256').update(workspace).digest('hex');
  const { schedule: before, backups } = await readClusterBackups(context);
  // Nodes refuse a schedule that is older than the one that they follow.
  const issuedMs = Math.max(Math.round(ports.clock.nowMs()), (before?.issuedMs ?? 0) + 1);
  const schedule = signBackupCertificate(
    {
      ...{ clusterId, epoch: Number(info.epoch), recipients },
      nodeIds: info.directory.map(({ nodeId }) => nodeId),
      everyMinutes,
      ...target,
      ...{ keep: options.keep, issuedMs, endsMs: issuedMs + options.validMs },
      ...(workspaceSha256 === undefined ? {} : { workspaceSha256 }),
    },
    { keyPem, vouchers },
  );
  if (schedule.version !== 2) throw new TypeError('a schedule expected');
  const losses = before === undefined ? [] : lossesOfReplacement(before, schedule, backups);
  const names = new Map(info.directory.map(({ nodeId, name }) => [nodeId, name] as const));
  const rendered = renderSchedule(schedule, { nowMs: ports.clock.nowMs(), names });
  if (options.dryRun)
    return host.result({ ...scheduleViewOf(schedule), dryRun: true, losses }, () =>
      [
        'The schedule would be signed. Nothing was changed.',
        rendered,
        ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
      ].join('\n'),
    );
  await confirmLoss(context, { doing: 'replacing the schedule of backups', losses, yes: options.yes });
  await saveKnownCurators(ports.files, caller.curatorsPath, info);
  if (credentials !== undefined) await writeStoreSecret(context, credentials);
  // Before the schedule, which tells a repeated run that there is a key.
  else if (before?.copyToStore !== undefined) await deleteStoreSecret(context);
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) =>
    operatorApi.putBackupSchedule({
      certificate: encodeBackupCertificate(schedule),
      ...{ workspace, mutation },
    }),
  );
  host.result(scheduleViewOf(schedule), () =>
    [rendered, `The first backup is taken within a minute. Show the backups: cluster backup ls`].join('\n'),
  );
}

/** The part of the schedule that names the target of copies. @throws AppError `app-usage` */
async function copyTargetOf(
  context: CommandContext,
  { copyTo, store = {} }: Pick<ScheduleOptions, 'copyTo' | 'store'>,
): Promise<Pick<ScheduleCertificate, 'copyTo' | 'copyToStore'>> {
  if (isStoreUrl(copyTo)) return { copyToStore: await copyStoreFrom(context, copyTo, store) };
  refuseStoreFlags(store);
  if (copyTo === undefined) return {};
  if (!isCopyDirectory(copyTo))
    throw new AppError(
      'app-usage',
      `--copy-to ${JSON.stringify(copyTo)}: expected an absolute path such as /mnt/backups, or s3://BUCKET/PREFIX`,
    );
  return { copyTo };
}

/** `cluster backup schedule show`. */
export async function runScheduleShow(context: CommandContext): Promise<void> {
  const { host, ports } = context;
  const { schedule, scheduledBy, failure, copies } = await readClusterBackups(context);
  if (schedule === undefined) {
    host.result({ schedule: null }, () => 'Control planes take no backups by themselves.');
    return;
  }
  const { directory } = await callCurator(context, ({ curator }) => curator.getClusterInfo({}));
  const names = new Map(directory.map(({ nodeId, name }) => [nodeId, name] as const));
  const isVerified = isSignedByOwner(schedule, await ownClusterOf(context));
  const missing = directory
    .filter(({ nodeId }) => !schedule.nodeIds.includes(nodeId))
    .map(({ name }) => name);
  const nowMs = ports.clock.nowMs();
  const { keyPem } = await readCaller(context);
  // People paste the command: from a forged schedule, an owner would sign the recovery key and the store of somebody else.
  const again = isVerified ? commandOfSchedule(schedule, recoveryKeyOfOwner(keyPem).recipient) : undefined;
  const view = {
    ...scheduleViewOf(schedule),
    again: again ?? null,
    isVerified,
    missing,
    scheduledBy,
    failure: failure ?? null,
    copies,
  };
  host.result({ schedule: view }, () =>
    [
      renderSchedule(schedule, { nowMs, names }),
      `Signature:  ${isVerified ? 'verified' : 'not of an owner that this workspace knows'}`,
      ...(again === undefined ? [] : [`Sign again: ${again}`]),
      ...missing.map((name) => `Not in it:  ${name} (sign again)`),
      ...(failure
        ? [`Failed:     ${formatDuration(nowMs - failure.timeMs)} ago on ${failure.node}: ${failure.message}`]
        : []),
      ...copies.map(({ node, names: copied, failure: failed }) =>
        failed === undefined
          ? `Copies:     ${copied.length} (made by ${node})`
          : `Not copied: since ${formatDuration(nowMs - failed.timeMs)} on ${node}: ${failed.message}`,
      ),
    ].join('\n'),
  );
}

/** `cluster backup schedule stop`: control planes take no more backups, and keep those that they have. */
export async function runScheduleStop(
  context: CommandContext,
  { dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean },
): Promise<void> {
  const { schedule } = await readClusterBackups(context);
  // Not an error: after an interruption, nobody can know whether the schedule has ended.
  if (schedule === undefined)
    return context.host.result(
      { schedule: null, ...(dryRun && { dryRun, losses: [] }) },
      () => 'Control planes take no backups by themselves: nothing to stop.',
    );
  const losses = [
    'backups that control planes take by themselves: from now on, there are only those that you take',
    ...(schedule.copyToStore === undefined
      ? []
      : ['the access key of the store in the cluster: copies in the store stay']),
  ];
  if (dryRun)
    return context.host.result(
      { dryRun, losses },
      () => `The schedule would end. Nothing was changed. Consequences:\n${renderLosses(losses)}`,
    );
  await confirmLoss(context, { doing: 'ending the schedule of backups', losses, yes });
  // First: a repeated run still finds the schedule, so it deletes the key that an interrupted run left in the cluster.
  if (schedule.copyToStore !== undefined) await deleteStoreSecret(context);
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putBackupSchedule({ mutation }));
  context.host.result(
    { schedule: null },
    () => 'Control planes take no more backups; those that they have stay.',
  );
}
