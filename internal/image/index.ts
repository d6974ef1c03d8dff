/**
 * Domain layer: bootable images of machines, as bytes. Everything that a machine starts is in one EFI program on the boot partition,
 * so that firmware and boot stub measure all of it before it runs:
 *
 * ```
 *  pinned Debian packages ─┐
 *  agent's package ────────┼─▶ root tree ─▶ initrd ─┐
 *  our configuration ──────┘                        ├─▶ UKI ─┐
 *  kernel, command line, boot stub ─────────────────┘        │
 *  provisioning file ────────────────────────────────────────┤
 *                                       with systemd-boot ───├─▶ disk: boot partition, state partition (raw, qcow2)
 *                                                            ├─▶ CD: boot file system
 *                                                            └─▶ EFI program with the provisioning file in it
 *                                            all of them ─▶ predicted registers
 * ```
 *
 * All functions but those that download and unpack the pinned packages are pure: the same input gives the same bytes.
 */
export { bootPartitionFiles, cdFiles } from './boot-partition.ts';
export { writeCpio, type CpioEntry } from './cpio.ts';
export { withCredentials } from './credentials.ts';
export { createDisk } from './disk.ts';
export { ImageError } from './errors.ts';
export { fetchPackages, type PackageContext } from './fetch-packages.ts';
export { bootEntryRelease, imageFiles, PROVISIONING_CREDENTIAL } from './image-files.ts';
export {
  parsePackageLock,
  pinnedPackages,
  type Hardware,
  type LockedPackage,
  type PackageLock,
} from './package-lock.ts';
export { createIso } from './iso9660.ts';
export { createQcow2 } from './qcow2.ts';
export { FIRMWARE_REGISTERS, predictRegisters, withFirmware } from './registers.ts';
export { createRootTree } from './root-tree.ts';
export type { SparseFile } from './sparse-file.ts';
export { createUki, type UkiParts } from './uki.ts';
export {
  indexModules,
  kernelOf,
  readFile,
  readPackageFiles,
  removeUnusedModules,
  unpackPackages,
} from './unpack-packages.ts';
