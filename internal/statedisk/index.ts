/**
 * Domain layer: the encrypted state disk of a machine, as bytes (docs/decisions/state-disk.md). The disk begins with
 * two slots for records. The LUKS2 header is inside the record and not in front of the data, so that a header is
 * replaced as a whole and covered by the MAC of the record.
 *
 * ```
 *   0 ── record ── 8 MiB ── record ── 16 MiB ── data (dm-crypt, dm-integrity) …
 *        │
 *        ├ stage, sequence, checksum, MAC under the node share
 *        ├ sealed node share, sealed cluster share or where to ask for it, recovery key, or a share of it for each owner, encrypted to the owners (twice: as a file, and for the console), MAC over the owners, registers
 *        └ LUKS2 header: slot 0 opens with HKDF(node share, cluster share), slot 1 with the recovery key
 * ```
 *
 * `bootstrapper/disk` formats and opens such a disk.
 */
export {
  approvalCounter,
  approvalReference,
  parseApproval,
  signApproval,
  type ApprovalContent,
  type VerifiedApproval,
} from './approval.ts';
export { approvalKeyOfOwner, parseApprovalKey } from './approval-key.ts';
export { diskStateOf, isAheadOfCounter, type DiskState } from './choose-record.ts';
export {
  answerConsoleChallenge,
  createConsoleChallenge,
  wrapForConsole,
  type ConsoleChallenge,
  type ConsoleRecovery,
} from './console-recovery.ts';
export { recordKey, SHARE_BYTES, slotKey, type DiskShares } from './disk-keys.ts';
export {
  encodeFormatting,
  encodeReady,
  isSealedShare,
  parseRecord,
  PREAMBLE_BYTES,
  SLOT_BYTES,
  type RecordContent,
} from './disk-record.ts';
export { StateDiskError } from './errors.ts';
export { FILE_SYSTEM_OPTIONS, MOUNT_OPTIONS } from './file-system.ts';
export {
  digestOfShare,
  MAX_RECOVERY_SHARES,
  ownersNeeded,
  RECOVERY_SHARE_BYTES,
  RecoveryShares,
  splitRecoveryKey,
  type OwnerRecovery,
  type SharedRecovery,
} from './recovery-shares.ts';
export { isMacOfRecipients, macOfRecipients } from './recipients-mac.ts';
export {
  isSameSource,
  provenSource,
  recordableControlPlanes,
  recordableEndpoints,
  type KnownSource,
  type ShareSource,
} from './share-source.ts';
export { decodeTyped, groupsOfLine, readGroups, typedDigits, type TypedBytes } from './typed-text.ts';
