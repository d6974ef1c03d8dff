import { createHash } from 'node:crypto';
import {
  BackupError,
  nodesOf,
  parseBackupCertificate,
  verifyBackupCertificate,
  type BackupCertificate,
} from '../../internal/backup/index.ts';
import { BackupTaskError } from './errors.ts';
import { streamBackup, type BackupEtcds, type BackupStreamOptions } from './stream-backup.ts';
import { claimCertificate } from './used-certificates.ts';

/** How long an agent may take from its start until its etcd members serve. */
const STARTING_MS = 20_000;
const POLL_MS = 250;

/** Ports and inputs of a backup that an owner orders. */
export interface BackupTaskOptions extends BackupStreamOptions {
  /** Directory in which this node records the certificates that it has used. */
  readonly usedCertificates: string;
  /** Raw Ed25519 keys of the owners, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  /** Clients of both local members, while they run. */
  readonly etcdMembers: () => BackupEtcds | undefined;
}

/** The order of an owner to take a backup. */
export interface BackupOrder {
  readonly certificate: Uint8Array;
  /** The files of a workspace, encrypted by the owner; empty if there are none. */
  readonly workspace: Uint8Array;
}

/**
 * Creates a function that takes one backup at a time. The stream that the function returns can fail.
 * @throws BackupError, BackupTaskError
 */
export function createBackupTask(
  options: BackupTaskOptions,
): (order: BackupOrder, signal: AbortSignal) => AsyncGenerator<Uint8Array> {
  let isBusy = false;
  return async function* (order, signal) {
    if (isBusy)
      throw new BackupTaskError(
        'backup-node-busy',
        'taking a backup: this node is already taking another backup',
      );
    isBusy = true;
    try {
      yield* takeBackup(options, order, signal);
    } finally {
      isBusy = false;
    }
  };
}

async function* takeBackup(
  options: BackupTaskOptions,
  order: BackupOrder,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { clock, clusterId, nodeId, ownerKeys } = options;
  const certificate = parseBackupCertificate(order.certificate);
  const nowMs = Math.round(clock.nowMs());
  verifyBackupCertificate(certificate, { clusterId, owners: ownerKeys, nowMs });
  refuseOtherWorkspace(certificate, order.workspace);
  const etcds = await startedMembers(options, signal);
  if (etcds === undefined)
    throw new BackupTaskError('backup-node-not-control-plane', `taking a backup: ${nodeId} runs no etcd`);
  // Refuses the certificate of a schedule, because a curator could order any number of backups with it.
  if (certificate.version !== 1 || certificate.nodeId !== nodeId)
    throw new BackupTaskError(
      'backup-node-mismatch',
      `taking a backup: the certificate is for ${nodesOf(certificate).join(', ')}, this is ${nodeId}`,
    );
  await claimCertificate(options, options.usedCertificates, certificate);
  yield* streamBackup(options, { certificate, workspace: order.workspace, etcds }, signal);
}

/** The members, which an agent that has just started reaches after some seconds; undefined if there are none. */
async function startedMembers(
  { clock, etcdMembers }: BackupTaskOptions,
  signal: AbortSignal,
): Promise<BackupEtcds | undefined> {
  const endMs = clock.monotonicMs() + STARTING_MS;
  for (;;) {
    const etcds = etcdMembers();
    if (etcds !== undefined || clock.monotonicMs() >= endMs) return etcds;
    await clock.sleep(POLL_MS, signal);
  }
}

/**
 * Refuses a workspace other than the one that the owner signed, so that nobody else can put a workspace into a backup.
 */
export function refuseOtherWorkspace({ workspaceSha256 }: BackupCertificate, workspace: Uint8Array): void {
  const found = workspace.length === 0 ? undefined : createHash('sha256').update(workspace).digest('hex');
  if (found !== workspaceSha256)
    throw new BackupError(
      'backup-certificate-invalid',
      'taking a backup: the workspace in the request is not the workspace that the owner signed',
    );
}
