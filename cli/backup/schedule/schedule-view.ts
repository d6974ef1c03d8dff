import {
  copyPlaceOf,
  parseBackupCertificate,
  verifyBackupCertificate,
  type ScheduleCertificate,
} from '../../../internal/backup/index.ts';
import { DAY_MS, formatDuration, formatExpiry, HOUR_MS, MINUTE_MS } from '../../../internal/clock/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { ListBackupsResponse } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../../cluster/index.ts';
import type { OwnCluster } from '../list-backups.ts';

/** A backup that a control plane keeps. */
export interface KeptBackup {
  readonly name: string;
  readonly seq: number;
  readonly nodeId: string;
  /** Name of the node; its ID if the node is no member any more. */
  readonly node: string;
  readonly takenMs: number;
  /** undefined if its content was not proved. */
  readonly provedMs: number | undefined;
  readonly epoch: number;
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Where the unencrypted data of the proof was, and its space; undefined if it is not known. */
  readonly proofPlace: ProofPlace | undefined;
}

/** `clear`: on an unencrypted disk, because the node had too little memory. */
export interface ProofPlace {
  readonly place: 'memory' | 'encrypted' | 'clear';
  readonly sizeBytes: number;
}

/** What the cluster says about its backups. */
export interface ClusterBackups {
  /** Not verified. */
  readonly schedule: ScheduleCertificate | undefined;
  readonly scheduledBy: string;
  /** Newest first, by number. */
  readonly backups: readonly KeptBackup[];
  readonly failure: BackupFailure | undefined;
  /** What control planes have copied to the directory of the schedule; empty if it names none. */
  readonly copies: readonly NodeCopies[];
}

/** Why a control plane could not take or copy a backup. */
export interface BackupFailure {
  readonly node: string;
  readonly timeMs: number;
  readonly code: string;
  readonly message: string;
}

/**
 * The copies of one control plane's backups. Without a failure, all proved backups of this control plane have been
 * copied.
 */
export interface NodeCopies {
  readonly nodeId: string;
  readonly node: string;
  readonly directory: string;
  readonly names: readonly string[];
  readonly failure: BackupFailure | undefined;
}

/** Asks the cluster for its schedule and its backups. */
export async function readClusterBackups(context: CommandContext): Promise<ClusterBackups> {
  return clusterBackupsFrom(await callCurator(context, ({ operatorApi }) => operatorApi.listBackups({})));
}

/** Parses the answer of a curator. @throws BackupError `backup-certificate-invalid` */
export function clusterBackupsFrom({
  certificate,
  scheduledBy,
  backups,
  failure,
  copies,
}: Pick<
  ListBackupsResponse,
  'certificate' | 'scheduledBy' | 'backups' | 'failure' | 'copies'
>): ClusterBackups {
  const parsed = certificate.length === 0 ? undefined : parseBackupCertificate(certificate);
  return {
    schedule: parsed?.version === 2 ? parsed : undefined,
    scheduledBy: printable(scheduledBy),
    backups: backups.map((each) => ({
      ...{ name: printable(each.name), seq: Number(each.seq), nodeId: printable(each.nodeId) },
      node: printable(each.nodeName === '' ? each.nodeId : each.nodeName),
      takenMs: Number(each.takenMs),
      provedMs: each.provedMs === 0n ? undefined : Number(each.provedMs),
      ...{ epoch: Number(each.epoch), sha256: printable(each.sha256), sizeBytes: Number(each.sizeBytes) },
      proofPlace: proofPlaceFrom(each),
    })),
    failure: failureFrom(failure),
    copies: copies.map((each) => ({
      ...{
        nodeId: printable(each.nodeId),
        node: printable(each.nodeName),
        directory: printable(each.directory),
      },
      names: each.names.map((name) => printable(name)),
      failure: failureFrom(each.failure),
    })),
  };
}

/** A place that this version does not know is left out. */
function proofPlaceFrom({
  proofPlace: place,
  proofBytes,
}: ListBackupsResponse['backups'][number]): ProofPlace | undefined {
  if (place !== 'memory' && place !== 'encrypted' && place !== 'clear') return undefined;
  return { place, sizeBytes: Number(proofBytes) };
}

function failureFrom(failure: ListBackupsResponse['failure']): BackupFailure | undefined {
  return (
    failure && {
      node: printable(failure.nodeName === '' ? failure.nodeId : failure.nodeName),
      timeMs: Number(failure.timeMs),
      ...{ code: printable(failure.code), message: printable(failure.message) },
    }
  );
}

/** Whether an owner whom the workspace knows signed the schedule. */
export function isSignedByOwner(schedule: ScheduleCertificate, own: OwnCluster | undefined): boolean {
  try {
    verifyBackupCertificate(schedule, { clusterId: own?.clusterId ?? '', owners: own?.owners ?? [] });
    return true;
  } catch {
    return false;
  }
}

/** What was proved about the content of a backup on a control plane. */
export function contentProof({ provedMs }: Pick<KeptBackup, 'provedMs'>): 'TAKEN' | 'CONTENT-PROVED' {
  return provedMs === undefined ? 'TAKEN' : 'CONTENT-PROVED';
}

/** A schedule for `--output json`. */
export function scheduleViewOf(schedule: ScheduleCertificate): Record<string, unknown> {
  const { everyMinutes, keep, copyTo, copyToStore, nodeIds, recipients, owner, epoch, issuedMs, endsMs } =
    schedule;
  return {
    ...{
      everyMinutes,
      keep,
      copyTo: copyTo ?? null,
      copyToStore: copyToStore ?? null,
      nodeIds,
      recipients,
      owner,
      epoch,
    },
    ...{ issuedAt: new Date(issuedMs).toISOString(), endsAt: new Date(endsMs).toISOString() },
  };
}

/** A schedule for people. @param names names of nodes by ID */
export function renderSchedule(
  schedule: ScheduleCertificate,
  { nowMs, names }: { readonly nowMs: number; readonly names: ReadonlyMap<string, string> },
): string {
  const nodes = schedule.nodeIds.map((id) => names.get(id) ?? id);
  const place = copyPlaceOf(schedule);
  return [
    `Every:      ${formatDuration(schedule.everyMinutes * MINUTE_MS)}`,
    `Kept:       ${schedule.keep} on each control plane`,
    ...(place === undefined ? [] : [`Copied to:  ${printable(place)} by each of them`]),
    `Taken by:   ${nodes.map((name) => printable(name)).join(', ')}`,
    `Signed:     ${new Date(schedule.issuedMs).toISOString()}, ${formatExpiry(schedule.endsMs, nowMs)}`,
    `Owner:      ${printable(schedule.owner)}`,
    ...schedule.recipients.map((recipient) => `Opened by:  ${printable(recipient)}`),
  ].join('\n');
}

/**
 * The command that signs this schedule again. A new schedule replaces the earlier one as a whole, so the command has all of its flags.
 * @param ownKey the recovery key of the owner who runs it, which needs no flag
 */
export function commandOfSchedule(schedule: ScheduleCertificate, ownKey: string): string {
  const { everyMinutes, keep, copyTo, copyToStore: store, recipients, issuedMs, endsMs } = schedule;
  const flags: readonly (readonly [flag: string, value: string])[] = [
    ['--every', flagOf(everyMinutes * MINUTE_MS)],
    ['--keep', String(keep)],
    ['--valid', flagOf(endsMs - issuedMs)],
    ...(copyTo === undefined ? [] : [['--copy-to', copyTo] as const]),
    ...(store === undefined ? [] : flagsOfStore(store)),
    ...recipients.filter((each) => each !== ownKey).map((each) => ['--recipient', each] as const),
  ];
  const all = flags.map(([flag, value]) => `${flag} ${printable(value)}`);
  return ['cluster backup schedule set', ...all].join(' ');
}

function flagsOfStore({
  bucket,
  prefix,
  endpoint,
  region,
  ca,
}: NonNullable<ScheduleCertificate['copyToStore']>): readonly (readonly [flag: string, value: string])[] {
  return [
    ['--copy-to', `s3://${[bucket, ...(prefix === '' ? [] : [prefix])].join('/')}`],
    ['--s3-endpoint', endpoint],
    ['--s3-region', region],
    ...(ca === undefined ? [] : [['--s3-ca', 'FILE'] as const]),
  ];
}

/** A duration in the largest unit in which it is a whole number: 90m, 6h, 365d. */
function flagOf(ms: number): string {
  const units = [
    ['d', DAY_MS],
    ['h', HOUR_MS],
    ['m', MINUTE_MS],
  ] as const;
  const [name, unitMs] = units.find(([, each]) => ms % each === 0) ?? ['s', 1000];
  return `${Math.max(1, Math.floor(ms / unitMs))}${name}`;
}
