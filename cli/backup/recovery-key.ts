import {
  BackupError,
  parseRecoveryKey,
  recoveryKeyOfOwner,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';

const IDENTITY = /^AGE-SECRET-KEY-1\S+$/m;

/** The key that opens a backup: the key in the given age identity file, or else the recovery key of the owner. */
export async function readRecoveryKey(
  context: CommandContext,
  ownerKeyPem: Secret<string>,
  path: string | undefined,
): Promise<RecoveryKey> {
  return path === undefined ? recoveryKeyOfOwner(ownerKeyPem) : readRecoveryKeyFile(context, path);
}

/** The key in an age identity file. @throws BackupError `backup-recipient-invalid` */
export async function readRecoveryKeyFile({ ports }: CommandContext, path: string): Promise<RecoveryKey> {
  const found = IDENTITY.exec((await readText(ports.files, path)) ?? '')?.[0];
  if (found === undefined)
    throw new BackupError('backup-recipient-invalid', `reading ${path}: no age identity found`);
  return parseRecoveryKey(new Secret(found));
}
