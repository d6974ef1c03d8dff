import { PROVISIONING_CREDENTIAL } from './image-files.ts';
import type { FatFile } from './fat32.ts';

/**
 * Settings of systemd-boot (loader.conf(5)): it starts the newest image at once. Nothing measures this file, and nothing relies on it: a
 * command line that somebody edits gives other registers.
 */
const LOADER_SETTINGS = `timeout 0
editor no
auto-entries no
auto-firmware no
random-seed-mode off
secure-boot-enroll off
`;

/**
 * The first image of a disk. An upgrade adds the next number with its tries, such as `cluster-2+3.efi`: systemd-boot starts the highest
 * number, and passes over an image without tries left.
 */
const FIRST_IMAGE = 'EFI/Linux/cluster-1.efi';

/** The files of the boot partition of a disk with one image, which needs no confirmation. */
export function bootPartitionFiles(content: {
  /** `systemd-bootx64.efi`. */
  readonly loader: Uint8Array;
  readonly uki: Uint8Array;
  readonly provisioning: Uint8Array;
}): readonly FatFile[] {
  return [
    { path: 'EFI/BOOT/BOOTX64.EFI', content: content.loader },
    { path: 'loader/loader.conf', content: Buffer.from(LOADER_SETTINGS) },
    { path: FIRST_IMAGE, content: content.uki },
    provisioningFile(content.provisioning),
  ];
}

/** The files of a CD, which has one image and no boot loader: nobody writes another image. */
export function cdFiles(uki: Uint8Array, provisioning: Uint8Array): readonly FatFile[] {
  return [{ path: 'EFI/BOOT/BOOTX64.EFI', content: uki }, provisioningFile(provisioning)];
}

/** systemd-stub finds the file there, for every image of the partition. */
function provisioningFile(content: Uint8Array): FatFile {
  return { path: `loader/credentials/${PROVISIONING_CREDENTIAL}`, content };
}
