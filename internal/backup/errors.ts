import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** Errors of backup files. */
export const backupErrors = defineErrors({
  'backup-not-a-backup': fault.operator.precondition(
    'The file is not a backup of a cluster. Nothing was changed.',
    'Use a file that `cluster backup create` wrote.',
  ),
  'backup-version-newer': fault.operator.precondition(
    'A newer version of this program wrote the backup. Nothing was changed.',
    'Use a version of `cluster` that is at least as new as the version that wrote the backup.',
  ),
  'backup-truncated': fault.peer.precondition(
    'The end of the backup is missing. Nothing was changed.',
    'Copy the file again, or use another backup.',
  ),
  'backup-malformed': fault.peer.precondition(
    'The backup does not have the format of a backup, or was changed. Nothing was changed.',
    'Copy the file again, or use another backup.',
  ),
  'backup-signature-invalid': fault.peer.refused(
    'The backup was changed after it was written, or it was not signed with the key in its certificate. Nothing was changed.',
    'Copy the file again, or use another backup.',
  ),
  'backup-certificate-invalid': fault.peer.refused(
    'No owner of the cluster signed the certificate of this backup, or it does not match the backup. Nothing was changed.',
    'Use a backup that was made for this owner key. See its owner with `cluster backup show FILE`.',
  ),
  'backup-other-cluster': fault.operator.precondition(
    'The backup was taken from another cluster. Nothing was changed.',
    'Use a backup of this cluster. See its cluster with `cluster backup show FILE`.',
  ),
  'backup-epoch-old': fault.operator.precondition(
    'The backup is from before the last recovery or restore of the cluster. Nothing was changed.',
    'Use a newer backup. See its epoch with `cluster backup show FILE`. If no newer backup exists, run `cluster restore` with --accept-older-epoch to restore this backup: all changes that the cluster made after it are lost.',
  ),
  'backup-recipient-invalid': fault.operator.usage(
    'The text is not a recovery key in the age format (X25519).',
    'A recipient starts with `age1`, an identity with `AGE-SECRET-KEY-1`. Create both with `age-keygen`.',
  ),
  'backup-no-recovery-key': fault.operator.refused(
    'None of the given recovery keys opens the backup.',
    'Use the owner key that the backup was made with, or the identity of one of its recipients. `cluster backup show FILE` shows the owner key and the recipients.',
  ),
  'backup-content-invalid': fault.peer.precondition(
    'The decrypted content of the backup is incomplete or damaged. Nothing was changed.',
    'Use another backup: `cluster backup ls` shows which ones are proved. `cluster backup create --into DIRECTORY --prove` proves a new one when it is taken.',
  ),
});

/** A backup was refused. */
export class BackupError extends errorClass(backupErrors) {}
