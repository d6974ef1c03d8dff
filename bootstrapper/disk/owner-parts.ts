import { encryptAge, parseRecipient } from '../../internal/backup/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  isMacOfRecipients,
  macOfRecipients,
  wrapForConsole,
  type ConsoleRecovery,
  type RecordContent,
} from '../../internal/statedisk/index.ts';
import type { DiskSettings } from './disk-settings.ts';

/** The parts of a record with which owners recover the disk. */
type OwnerParts = Pick<RecordContent, 'recovery' | 'consoleRecovery' | 'recipientsMac'>;

/** Encrypts the recovery key of a new disk to the recipients of the provisioning file. */
export async function createOwnerParts(
  recoveryKey: Secret<Uint8Array>,
  { uuid, settings }: { readonly uuid: string; readonly settings: DiskSettings },
): Promise<OwnerParts> {
  const recipients = settings.recipients.map(parseRecipient);
  return {
    recovery: await encryptToOwners(recoveryKey, settings.recipients),
    consoleRecovery: wrapForConsole(recoveryKey, { uuid, recipients }),
    recipientsMac: macOfRecipients(recoveryKey, { uuid, recipients }),
  };
}

/**
 * The parts after a recovery. The recipients stay those of the formatting: the provisioning file may have got others since. So its recipients get the part for the
 * console only if they are the same; otherwise nobody does.
 */
export function renewOwnerParts(
  { uuid, recovery, recipientsMac }: OwnerParts & Pick<RecordContent, 'uuid'>,
  options: {
    readonly recoveryKey: Secret<Uint8Array>;
    readonly settings: DiskSettings;
    readonly log: Logger;
  },
): OwnerParts {
  const { recoveryKey, settings, log } = options;
  const recipients = settings.recipients.map(parseRecipient);
  let consoleRecovery: ConsoleRecovery | undefined;
  let reason: string | undefined;
  if (recipientsMac === undefined) reason = 'an earlier release has formatted it';
  else if (isMacOfRecipients(recipientsMac, recoveryKey, { uuid, recipients }))
    consoleRecovery = wrapForConsole(recoveryKey, { uuid, recipients });
  else reason = 'the recovery recipients of the provisioning file are not those of the formatting';
  if (reason !== undefined) log.warn('no later recovery of the state disk at the console', { reason });
  return { recovery, consoleRecovery, recipientsMac };
}

async function encryptToOwners(key: Secret<Uint8Array>, recipients: readonly string[]): Promise<Uint8Array> {
  async function* plain(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(key.reveal());
  }
  return Buffer.concat(await Array.fromAsync(encryptAge(plain(), recipients)));
}
