import { encryptAge, parseRecipient } from '../../internal/backup/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  digestOfShare,
  isMacOfRecipients,
  macOfRecipients,
  splitRecoveryKey,
  wrapForConsole,
  type RecordContent,
} from '../../internal/statedisk/index.ts';
import type { DiskSettings } from './disk-settings.ts';

/** The parts of a record with which owners recover the disk. */
type OwnerParts = Pick<RecordContent, 'recovery' | 'consoleRecovery' | 'recipientsMac'>;

/**
 * Encrypts the recovery key to the recipients of the provisioning file. If several of them must act, each gets a share of the key instead, and nobody gets the key.
 */
export async function createOwnerParts(
  recoveryKey: Secret<Uint8Array>,
  { uuid, settings }: { readonly uuid: string; readonly settings: DiskSettings },
): Promise<OwnerParts> {
  const { recoveryThreshold: threshold } = settings;
  const recipients = settings.recipients.map(parseRecipient);
  const recipientsMac = macOfRecipients(recoveryKey, { uuid, recipients, threshold });
  if (threshold === 1) {
    const each = new Map(recipients.map((recipient) => [Buffer.from(recipient).toString('hex'), recipient]));
    const secrets = [...each.values()].map((recipient) => ({ recipient, secret: recoveryKey }));
    return {
      recovery: { kind: 'key', sealed: await encryptToOwners(recoveryKey, settings.recipients) },
      consoleRecovery: wrapForConsole(uuid, secrets),
      recipientsMac,
    };
  }
  const owners = await shareAmong(settings.recipients, recoveryKey, threshold);
  const shares = owners.map(async ({ text, secret }) => ({
    sealed: await encryptToOwners(secret, [text]),
    digest: digestOfShare(secret),
  }));
  const secrets = owners.map(({ text, secret }) => ({ recipient: parseRecipient(text), secret }));
  return {
    recovery: { kind: 'shares', threshold, shares: await Promise.all(shares) },
    consoleRecovery: wrapForConsole(uuid, secrets),
    recipientsMac,
  };
}

async function shareAmong(
  texts: readonly string[],
  recoveryKey: Secret<Uint8Array>,
  threshold: number,
): Promise<readonly { readonly text: string; readonly secret: Secret<Uint8Array> }[]> {
  const shares = (await splitRecoveryKey(recoveryKey, { owners: texts.length, threshold })).values();
  return texts.flatMap((text) => {
    const { value: secret } = shares.next();
    return secret === undefined ? [] : [{ text, secret }];
  });
}

/**
 * The parts after a recovery. New ones are made only if the provisioning file still names the recipients and the threshold of the formatting. Otherwise the part for the
 * network stays, and the disk has none for the console.
 */
export async function renewOwnerParts(
  { uuid, recovery, recipientsMac }: OwnerParts & Pick<RecordContent, 'uuid'>,
  options: {
    readonly recoveryKey: Secret<Uint8Array>;
    readonly settings: DiskSettings;
    readonly log: Logger;
  },
): Promise<OwnerParts> {
  const { recoveryKey, settings, log } = options;
  const { recoveryThreshold: threshold } = settings;
  const recipients = settings.recipients.map(parseRecipient);
  if (
    recipientsMac !== undefined &&
    isMacOfRecipients(recipientsMac, recoveryKey, { uuid, recipients, threshold })
  )
    return createOwnerParts(recoveryKey, { uuid, settings });
  const reason =
    recipientsMac === undefined
      ? 'an earlier release has formatted it'
      : 'the recovery recipients of the provisioning file, or how many of them must act, are not those of the formatting';
  log.warn('no later recovery of the state disk at the console', { reason });
  return { recovery, consoleRecovery: undefined, recipientsMac };
}

async function encryptToOwners(key: Secret<Uint8Array>, recipients: readonly string[]): Promise<Uint8Array> {
  async function* plain(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(key.reveal());
  }
  return Buffer.concat(await Array.fromAsync(encryptAge(plain(), recipients)));
}
