import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of `cluster backup`. */
export const backupErrors = defineErrors({
  'backup-file-exists': fault.operator.precondition(
    'The file to write exists already. It was not changed.',
    'Use another name with --to, or delete the file with `cluster backup delete`.',
  ),
  'backup-work-space': fault.operator.precondition(
    'The file system has too little space for the decrypted backup and the databases that are restored from it. The backup was not decrypted.',
    'Name a directory with enough space with --work-dir. It holds the decrypted data while the command runs: use an encrypted disk.',
  ),
  'backup-output-unfit': fault.operator.usage(
    'Standard output cannot take the bytes of a backup: it is a terminal, or the events of the command go to it.',
    'Redirect standard output to a file or a program, and do not use --events stdout.',
  ),
  'backup-output-begun': retryable.system.unhealthy(
    'The stream of the backup broke after a part of it was written to standard output. What was written is no backup.',
    'Delete what was written, and run the command again.',
  ),
  'backup-target': fault.operator.usage(
    'The command needs exactly one target: a file or a directory. --keep and --prove need a directory, and --work-dir needs --prove.',
    'Use --to FILE, or --into DIRECTORY with --keep N, --prove and --work-dir DIRECTORY.',
  ),
  'backup-list-target': fault.operator.usage(
    'The command lists either the backups in a directory or the backups that nodes keep, not both.',
    'Use `cluster backup ls DIRECTORY`, or `cluster backup ls --node NODE`.',
  ),
  'backup-schedule-period': fault.operator.usage(
    'The time between two scheduled backups must be one minute to 31 days.',
    'Use --every with a duration such as 1h, 6h or 1d.',
  ),
  'backup-not-kept': fault.operator.usage(
    'No control plane keeps such a backup.',
    'See the backups with `cluster backup ls`, and the schedule with `cluster backup schedule show`.',
  ),
  'backup-fetched-differs': fault.peer.refused(
    'The file that the node sent is not the backup that the cluster recorded under this name. No file was written.',
    'Fetch another backup. A control plane may be compromised: see `cluster audit`.',
  ),
  'backup-fetched-damaged': fault.peer.refused(
    'The object in the store is no complete backup. No file was written.',
    'Fetch another backup: `cluster backup ls s3://BUCKET/PREFIX` lists all of them.',
  ),
  'backup-not-owner': fault.operator.refused(
    'A backup contains all keys of the cluster, so only an owner may take one.',
    'Run the command in the workspace of an owner.',
  ),
  'backup-no-control-plane': fault.operator.precondition(
    'No control plane with this name is up.',
    'See the control planes with `cluster node ls`.',
  ),
  'backup-unproved': fault.peer.precondition(
    'The restored data differs from what the control plane had when it took the backup. Do not rely on this backup.',
    'Take a new backup. Check the etcd members with `cluster doctor`.',
  ),
  'backup-nodes-unknown': fault.operator.precondition(
    'The backup does not say which workers the cluster had: an older version took it. Nothing was changed.',
    'Restore it without --keep-worker. Then reset the workers and let them join again.',
  ),
  'backup-worker-unknown': fault.operator.usage(
    'A --keep-worker names no worker of the backup. A control plane cannot be kept. Nothing was changed.',
    'Name workers that the message lists.',
  ),
  'backup-worker-removed': fault.operator.refused(
    'A --keep-worker names a machine that was removed after the backup. Nothing was changed.',
    'Restore without this --keep-worker. To let the machine join again, reset it and run `cluster node readmit`.',
  ),
  'backup-removed-machines': fault.operator.usage(
    'A file of --removed-machines is missing or damaged, or belongs to another cluster. Nothing was changed.',
    'Name the file removed-machines.json in another workspace of the same cluster, or leave the flag out.',
  ),
  'backup-workers-differ': fault.operator.precondition(
    'The restore of this file was begun with other --keep-worker flags. Nothing was changed.',
    'Run the command with the workers that the message lists, or without --keep-worker: it continues with those workers.',
  ),
  'backup-not-found': fault.operator.usage(
    'The file or directory that the command names does not exist.',
    'Check the path. `cluster backup ls DIRECTORY` lists the backups in a directory.',
  ),
  'backup-no-workspace': fault.operator.precondition(
    'The backup contains no workspace: it was taken by an older release, or by an owner without the master secret. Nothing was changed.',
    'Run `cluster restore` without --owner-key in a copy of the workspace: cluster.yaml, owner-key.pem and master-secret.json.',
  ),
  'backup-drill-differs': fault.system.unhealthy(
    'The restored cluster has other objects than the backup. Do not rely on this backup.',
    'Repeat the drill with --keep and compare the objects with `cluster mini exec`. Take a new backup on another control plane.',
  ),
  'backup-drill-uncounted': fault.operator.precondition(
    'An older release took the backup, or etcd compacted its history meanwhile, so the backup contains no complete list of objects for a comparison.',
    'Take a new backup. To restore this one, use `cluster restore`.',
  ),
  'backup-cluster-alive': fault.operator.precondition(
    'The cluster from which the backup was taken still runs. Two clusters with the same ID and keys must not exist. Nothing was changed.',
    'To repair a running cluster, use `cluster recover quorum`. To restore, shut down all of its control planes first.',
  ),
  'backup-configuration-differs': fault.operator.precondition(
    'cluster.yaml has another cluster name or other networks than the cluster in the backup. Nothing was changed.',
    'Correct `name` and `networking` in cluster.yaml as the message shows them.',
  ),
  'backup-last-good': fault.operator.precondition(
    'This is the last good backup of its cluster in its directory. It was not deleted.',
    'Take a new backup first, or delete the file with `rm`.',
  ),
});

/** A backup could not be taken, proved or deleted. */
export class BackupCommandError extends errorClass(backupErrors) {}
