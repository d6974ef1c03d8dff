import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../secret/index.ts';

const RECIPIENTS = 'cluster/state-disk/recipients/v1';
const KEY_BYTES = 32;
/** The length of a MAC over recipients. */
export const RECIPIENTS_MAC_BYTES = 32;

/** The recipients of a disk: raw X25519 public keys, in any order. */
interface DiskRecipients {
  readonly uuid: string;
  readonly recipients: readonly Uint8Array[];
  /** How many of them must act. */
  readonly threshold: number;
}

/**
 * HMAC-SHA-256 over the recipients that may recover a disk and their threshold, under a key from its recovery key (HKDF). Only who has the recovery key can make one, so the
 * provisioning file of a later start cannot name other recipients.
 */
export function macOfRecipients(
  recoveryKey: Secret<Uint8Array>,
  { uuid, recipients, threshold }: DiskRecipients,
): Uint8Array {
  const key = new Uint8Array(hkdfSync('sha256', recoveryKey.reveal(), uuid, RECIPIENTS, KEY_BYTES));
  // All have one length, so no two lists have the same bytes.
  const sorted = Buffer.concat([...recipients].sort((one, other) => Buffer.compare(one, other)));
  // Releases without a threshold had no byte for it.
  const several = threshold === 1 ? Buffer.of() : Buffer.of(threshold);
  return new Uint8Array(createHmac('sha256', key).update(sorted).update(several).digest());
}

/** Whether `mac` is the MAC over exactly these recipients. */
export function isMacOfRecipients(
  mac: Uint8Array,
  recoveryKey: Secret<Uint8Array>,
  recipients: DiskRecipients,
): boolean {
  const expected = macOfRecipients(recoveryKey, recipients);
  return mac.length === expected.length && timingSafeEqual(mac, expected);
}
