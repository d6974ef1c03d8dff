import { createHash } from 'node:crypto';
import { ImageError } from './errors.ts';
import { writeFat32, type FatFile } from './fat32.ts';
import { COPY_SECTORS, encodeTable, FIRST_PARTITION_SECTOR, guidOf, SECTOR_BYTES } from './gpt.ts';
import type { SparseFile } from './sparse-file.ts';

/** EFI system partition (UEFI 2.10 §5.3.3). */
const BOOT_TYPE = 'c12a7328-f81f-11d2-ba4b-00a0c93ec93b';
/** A partition type of this project, so that no other program takes the partition for one of its own. */
export const STATE_TYPE = '1d5f1a2c-6a37-4f0e-9c57-c1d57e57a7e0';
const MIN_STATE_BYTES = 64 * 2 ** 20;
const MIB_SECTORS = 2048;

const CLUSTER_SECTORS = 8;
/** Room for two images, each with half of the partition. The size is fixed, so that PCR 5 is the same for each image. */
const BOOT_BYTES = 512 * 2 ** 20;
/** Some of the partition is for the tables of the file system. */
const MOST_BYTES = BOOT_BYTES / 2 - 4 * 2 ** 20;
/** Names the layout. Another layout needs another name. */
const LAYOUT = 'cluster image 2';

/** A disk, and what of it is measured. */
export interface DiskImage extends SparseFile {
  /** The part of the partition table that firmware measures into the TPM. */
  readonly measuredTable: Uint8Array;
}

/**
 * Lays out a disk with a boot partition for the files, and an empty partition `cluster-state`. The partition table depends on the size
 * alone: an upgrade writes another image to the boot partition, and does not change the table.
 * @throws ImageError `image-too-large`, `image-option`
 */
export function createDisk(files: readonly FatFile[], stateBytes: number): DiskImage {
  if (stateBytes < MIN_STATE_BYTES || !Number.isSafeInteger(stateBytes))
    throw new ImageError(
      'image-option',
      `--state-size: ${stateBytes} bytes are not a whole number of at least ${MIN_STATE_BYTES}`,
    );
  const bytes = files.reduce((sum, { content }) => sum + content.length, 0);
  if (bytes > MOST_BYTES)
    throw new ImageError(
      'image-too-large',
      `the boot partition has no room for two images of ${bytes} bytes, at most ${MOST_BYTES} each`,
    );
  const bootSectors = BOOT_BYTES / SECTOR_BYTES;
  const stateSectors = Math.ceil(stateBytes / SECTOR_BYTES / MIB_SECTORS) * MIB_SECTORS;
  const stateAt = FIRST_PARTITION_SECTOR + bootSectors;
  const id = (what: string): string => guidOf(sha256(`${LAYOUT} ${what} ${bootSectors} ${stateSectors}`));
  const sectors = Math.ceil((stateAt + stateSectors + COPY_SECTORS) / MIB_SECTORS) * MIB_SECTORS;
  const table = encodeTable({
    diskId: id('disk'),
    sectors,
    partitions: [
      {
        type: BOOT_TYPE,
        id: id('boot'),
        name: 'cluster-boot',
        firstSector: FIRST_PARTITION_SECTOR,
        lastSector: stateAt - 1,
      },
      {
        type: STATE_TYPE,
        id: id('state'),
        name: 'cluster-state',
        firstSector: stateAt,
        lastSector: stateAt + stateSectors - 1,
      },
    ],
  });
  const boot = writeFat32(files, {
    sectors: bootSectors,
    hiddenSectors: FIRST_PARTITION_SECTOR,
    clusterSectors: CLUSTER_SECTORS,
  });
  const bootOffset = FIRST_PARTITION_SECTOR * SECTOR_BYTES;
  return {
    sizeBytes: sectors * SECTOR_BYTES,
    extents: [
      { offset: 0, bytes: table.start },
      ...boot.map(({ offset, bytes }) => ({ offset: bootOffset + offset, bytes })),
      { offset: sectors * SECTOR_BYTES - table.end.length, bytes: table.end },
    ],
    measuredTable: table.measured,
  };
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}
