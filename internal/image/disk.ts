import { createHash } from 'node:crypto';
import { ImageError } from './errors.ts';
import { sectorsFor, writeFat32, type FatFile } from './fat32.ts';
import { COPY_SECTORS, encodeTable, FIRST_PARTITION_SECTOR, guidOf, SECTOR_BYTES } from './gpt.ts';
import type { SparseFile } from './sparse-file.ts';

/** EFI system partition (UEFI 2.10 §5.3.3). */
const BOOT_TYPE = 'c12a7328-f81f-11d2-ba4b-00a0c93ec93b';
/** A partition type of this project, so that no other program takes the partition for one of its own. */
export const STATE_TYPE = '1d5f1a2c-6a37-4f0e-9c57-c1d57e57a7e0';
const MIN_STATE_BYTES = 64 * 2 ** 20;
const MIB_SECTORS = 2048;

const CLUSTER_SECTORS = 8;
/** The boot partition has room for a second image, which an upgrade writes. */
const IMAGES = 2;

/** A disk, and what of it is measured. */
export interface DiskImage extends SparseFile {
  /** The part of the partition table that firmware measures into the TPM. */
  readonly measuredTable: Uint8Array;
}

/**
 * Lays out a disk with a boot partition for the files, and an empty partition `cluster-state`. All identifiers follow
 * from the content, so that the same files give the same bytes.
 * @throws ImageError `image-too-large`
 */
export function createDisk(files: readonly FatFile[], stateBytes: number): DiskImage {
  if (stateBytes < MIN_STATE_BYTES || !Number.isSafeInteger(stateBytes))
    throw new ImageError('image-too-large', `invalid size of the state partition: ${stateBytes} bytes`);
  const digest = digestOf(files, stateBytes);
  const id = (what: string): string => guidOf(sha256(Buffer.from(what), digest));
  const bootSectors = sectorsFor(files, { clusterSectors: CLUSTER_SECTORS, images: IMAGES });
  const stateSectors = Math.ceil(stateBytes / SECTOR_BYTES / MIB_SECTORS) * MIB_SECTORS;
  const stateAt = FIRST_PARTITION_SECTOR + bootSectors;
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

function digestOf(files: readonly FatFile[], stateBytes: number): Uint8Array {
  const hash = createHash('sha256').update(`${stateBytes}\0`);
  for (const { path, content } of files) hash.update(`${path}\0`).update(sha256(content));
  return hash.digest();
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
