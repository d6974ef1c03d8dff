import type { Secret } from '../../internal/secret/index.ts';
import type { Cryptsetup } from './cryptsetup.ts';
import { OPENS } from './disk-settings.ts';

/** A slot of the LUKS header that exists only while the first one is replaced, in memory. */
const BESIDE = 2;

/** Keys of the slots of a LUKS header. */
export interface SlotKeys {
  /** The key that opens the first slot now. */
  readonly from: Secret<Uint8Array>;
  /** The key that is to open it. */
  readonly to: Secret<Uint8Array>;
  /** The key that is to open the slot of the owners; undefined: it stays. */
  readonly recoveryKey?: Secret<Uint8Array> | undefined;
}

/**
 * Replaces the first slot, or both, in a copy of the header in memory. `from` must open it, so that a wrong answer of a signer changes nothing. The keys before
 * open nothing in the new header.
 * @returns the new header, which opens with the new keys
 */
export async function replaceSlots(
  cryptsetup: Cryptsetup,
  header: Uint8Array,
  { from, to, recoveryKey }: SlotKeys,
): Promise<Uint8Array> {
  await cryptsetup.putHeader(header);
  try {
    await cryptsetup.addSlot(BESIDE, { key: to, opensWith: from });
    await cryptsetup.removeSlot(OPENS.shares, to);
    await cryptsetup.addSlot(OPENS.shares, { key: to, opensWith: to });
    await cryptsetup.removeSlot(BESIDE, to);
    await cryptsetup.check(OPENS.shares, to);
    if (recoveryKey !== undefined) {
      await cryptsetup.removeSlot(OPENS.recovery, to);
      await cryptsetup.addSlot(OPENS.recovery, { key: recoveryKey, opensWith: to });
      await cryptsetup.check(OPENS.recovery, recoveryKey);
    }
    return await cryptsetup.readHeader();
  } finally {
    await cryptsetup.clear();
  }
}
