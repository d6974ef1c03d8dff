/**
 * Domain layer: the encrypted state disk of a machine, as bytes (docs/decisions/state-disk.md). The disk begins with two places for
 * records, and its LUKS2 header is in them instead of before the data: a record is replaced as a whole, and covered by one MAC.
 *
 * ```
 *   0 ── record ── 8 MiB ── record ── 16 MiB ── data (dm-crypt, dm-integrity) …
 *        │
 *        ├ stage, sequence, checksum, MAC under the node share
 *        ├ sealed node share, sealed cluster share, recovery key encrypted to the owners, registers
 *        └ LUKS2 header: slot 0 opens with HKDF(node share, cluster share), slot 1 with the recovery key
 * ```
 *
 * `bootstrapper/disk` formats and opens such a disk.
 */
export { diskStateOf, isAheadOfCounter, type DiskState } from './choose-record.ts';
export { recordKey, SHARE_BYTES, slotKey, type DiskShares } from './disk-keys.ts';
export {
  encodeFormatting,
  encodeReady,
  PREAMBLE_BYTES,
  SLOT_BYTES,
  type RecordContent,
} from './disk-record.ts';
export { StateDiskError } from './errors.ts';
