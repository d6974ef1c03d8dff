/**
 * The encrypted state disk of this machine (docs/decisions/state-disk.md): formats it once, opens it at each start, and recovers it
 * with the key of an owner. The agent calls it before it reads any of its own files.
 *
 * ```
 * empty ─▶ record "formatting" ─▶ TPM counter ─▶ LUKS header in memory ─▶ mapping ─▶ file system ─▶ record "ready" ─▶ counter
 *   ▲              │ after a crash: from the start                                                        │
 *   └──────────────┘                                                             each start: unseal, verify, open, mount
 * ```
 */
export { approveSoftware, readDiskSeal, type DiskSeal } from './approve-software.ts';
export {
  giveShareToSigner,
  isKeyMove,
  readShareKeeper,
  takeShareBack,
  type AskShare,
  type ProbeShare,
  type ShareKeeper,
  type ShareMove,
  type ShareQuestion,
} from './cluster-share.ts';
export type { DiskPorts, DiskSettings } from './disk-settings.ts';

export { DiskQueue } from './disk-queue.ts';
export { destroyStateDisk } from './destroy-disk.ts';
export {
  DiskError,
  isLockedDiskError,
  isLastingRefusal,
  isRotationRefused,
  isShareError,
  isShareMoved,
  isStayingDiskError,
  isWrongShareError,
} from './errors.ts';
export { rotateDiskKeys, type KeyRotation, type RotationOrder } from './rotate-keys.ts';
export { openStateDisk, readLockedDisk, recoverStateDisk, type LockedDisk } from './open-disk.ts';
export { probeMovedShare } from './probe-share.ts';
export { provisionedDisk } from './provisioned-disk.ts';
