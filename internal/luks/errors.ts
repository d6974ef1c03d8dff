import { defineErrors, errorClass, fault } from '../errors/index.ts';

const FIX =
  'Do not use the disk. If the header was changed on purpose, restore the header from a backup, or format the disk and let the node join again.';

/** How much of a refused value an error message shows. */
const MAX_FOUND = 120;

/** Errors of the LUKS2 header of a state disk. The header is refused before anything is written. */
export const luksErrors = defineErrors({
  'luks-truncated': fault.peer.refused('The disk is smaller than a LUKS2 header.', FIX),
  'luks-magic': fault.peer.refused(
    'The disk does not begin with a LUKS2 header, or its second copy is missing.',
    FIX,
  ),
  'luks-version': fault.peer.refused('The header has another version of LUKS.', FIX),
  'luks-size': fault.peer.refused('The header has sizes or offsets that this program does not create.', FIX),
  'luks-checksum': fault.peer.refused('The checksum of a header does not match its content.', FIX),
  'luks-copies-differ': fault.peer.refused('The two copies of the header differ.', FIX),
  'luks-label': fault.peer.refused(
    'The header has a label, or other bytes where this program writes none.',
    FIX,
  ),
  'luks-uuid': fault.peer.refused('The header has no valid UUID.', FIX),
  'luks-json': fault.peer.refused(
    'The metadata of the header is not in the form of JSON that cryptsetup writes.',
    FIX,
  ),
  'luks-field': fault.peer.refused(
    'The metadata lacks a field, or has one that this program does not know.',
    FIX,
  ),
  'luks-reencryption': fault.peer.refused(
    'The header says that the disk is being re-encrypted, or that the disk needs LUKS features that this program does not support.',
    FIX,
  ),
  'luks-cipher': fault.peer.refused(
    'The header names another cipher, key size or integrity than this program uses.',
    FIX,
  ),
  'luks-kdf': fault.peer.refused(
    'A key derivation of the header is weaker, costlier or of another kind than this program uses.',
    FIX,
  ),
  'luks-keyslot': fault.peer.refused('The header has a key slot that this program does not create.', FIX),
  'luks-segment': fault.peer.refused(
    'The header maps the data of the disk in another way than this program does.',
    FIX,
  ),
  'luks-digest': fault.peer.refused(
    'The digest of the volume key does not cover exactly the key slots and the data.',
    FIX,
  ),
  'luks-token': fault.peer.refused('The header has a token, which this program never writes.', FIX),
});

/** A code of this directory. */
export type LuksErrorCode = keyof typeof luksErrors;

/** A header of a state disk was refused. */
export class LuksError extends errorClass(luksErrors) {}

/** Refuses a header. `found` may come from an attacker: it is quoted and cut. */
export function refuse(code: LuksErrorCode, what: string, found?: unknown): never {
  const seen = found === undefined ? '' : `: ${JSON.stringify(found).slice(0, MAX_FOUND)}`;
  throw new LuksError(code, `checking the header of the state disk: ${what}${seen}`);
}
