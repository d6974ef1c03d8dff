import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of taking a backup on this node. */
export const backupTaskErrors = defineErrors({
  'backup-node-not-control-plane': fault.operator.precondition(
    'This node runs no etcd now, so it cannot take a backup.',
    'Name a control plane that is up (`cluster node ls`).',
  ),
  'backup-node-mismatch': fault.peer.refused(
    'The owner’s certificate is for a backup by another node, or for another epoch of the cluster. Nothing was read.',
    'Run `cluster backup create` again.',
  ),
  'backup-certificate-used': fault.peer.refused(
    'This node has used the owner’s certificate for another backup. Each certificate is valid for one backup. Nothing was read.',
    'Run `cluster backup create` again. If no owner has run this command before, a control plane may be compromised: see `cluster audit`.',
  ),
  'backup-schedule-invalid': fault.peer.refused(
    'This node refuses the stored schedule of backups: the schedule is older than the one that the node followed last, or the signature is not for a schedule.',
    'Sign the schedule again: run the command that `cluster backup schedule show` prints. If no owner has changed the schedule, a control plane may be compromised: see `cluster audit`.',
  ),
  'backup-node-space': retryable.operator.unhealthy(
    'The state disk of this control plane has too little space for a scheduled backup and its proof.',
    'Free space on the disk, keep fewer backups (run the command that `cluster backup schedule show` prints, with a lower --keep), or use a larger disk.',
  ),
  'backup-node-unproved': retryable.system.unhealthy(
    'A backup was restored into a throwaway etcd, and the restored content differs from the content of the cluster. The backup was deleted; earlier backups stay.',
    'Check the etcd members and the disks with `cluster doctor`. The control planes try again by themselves.',
  ),
  'backup-node-incomparable': retryable.system.unhealthy(
    'At each attempt, etcd compacted its history while the backup was taken, so the backup could not be compared with the content of etcd. The backup was deleted; earlier backups stay.',
    'Wait: the control planes try again by themselves. If it repeats, the disk may be slow: see `cluster doctor`.',
  ),
  'backup-node-keys-changed': retryable.system.precondition(
    'The keys that control planes share were replaced while the backup was taken. The backup could have objects that its encryption key does not decrypt, so it was given up.',
    'Run the command again. `cluster keys show` shows when the rotation is done. Scheduled backups are taken again by themselves.',
  ),
  'backup-node-claim-lost': retryable.system.precondition(
    'This node could not renew its claim to take the next backup of the cluster in time, so another control plane may take that backup.',
    'Wait: the control planes try again by themselves. If it repeats, see `cluster doctor`.',
  ),
  'backup-node-copy-target': retryable.operator.unhealthy(
    'The directory to which this node copies its backups cannot be read, is no directory, or is on a disk of the node itself (the disk of `/` or of the backups), for example because its file system is not mounted. Nothing was written.',
    'Mount the file system on the node, or name another directory (run the command that `cluster backup schedule show` prints, with another --copy-to). The node then copies what is missing.',
  ),
  'backup-node-copy-failed': retryable.operator.unhealthy(
    'This node could not copy a backup to the directory of the schedule. The existing copies stay.',
    'On the node, check with `df -h DIRECTORY` that the directory of the schedule is mounted and has space, and with `touch DIRECTORY/test` that root may write to it. The node tries again by itself; `cluster backup schedule show` then shows no failure.',
  ),
  'backup-node-file-unknown': fault.operator.usage(
    'The node keeps no backup with this name.',
    'See the backups of the cluster with `cluster backup ls`.',
  ),
  'backup-node-busy': retryable.system.precondition(
    'This node is taking another backup.',
    'Run the command again later, or name another control plane with --node.',
  ),
});

/** This node cannot take a backup. */
export class BackupTaskError extends errorClass(backupTaskErrors) {}
