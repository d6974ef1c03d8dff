import { SECTOR_BYTES as DISK_SECTOR_BYTES } from './gpt.ts';
import { sectorsFor, writeFat32, type FatFile } from './fat32.ts';
import type { Extent, SparseFile } from './sparse-file.ts';

const SECTOR_BYTES = 2048;
/** Sectors of the parts. The sectors before are for the operating system (ECMA-119 §6.2.1). */
const AT = { volume: 16, boot: 17, end: 18, pathsLittle: 19, pathsBig: 20, root: 21, catalog: 22, image: 23 };
const STANDARD = 'CD001';
const PATH_TABLE_BYTES = 10;
const DIRECTORY_ENTRY_BYTES = 34;
const DIRECTORY = 0x02;
const EFI_PLATFORM = 0xef;
const BOOTABLE = 0x88;
/** Clusters of one sector: the smallest FAT32 file system. */
const CLUSTER_SECTORS = 1;
/** No date: ECMA-119 §8.4.26.1. */
const NO_DATE = `${'0'.repeat(16)}\0`;

/**
 * A CD from which UEFI firmware starts (ECMA-119, "El Torito" 1.0, UEFI 2.10 §13.3.2.1): an empty CD file system, and a FAT
 * file system with the files, which firmware takes for a disk. The bytes depend on the content alone.
 * @throws ImageError `image-too-large`
 */
export function createIso(files: readonly FatFile[]): SparseFile {
  const fatSectors = sectorsFor(files, { clusterSectors: CLUSTER_SECTORS, images: 1 });
  const boot = writeFat32(files, {
    sectors: fatSectors,
    hiddenSectors: 0,
    clusterSectors: CLUSTER_SECTORS,
  });
  const sectors = AT.image + (fatSectors * DISK_SECTOR_BYTES) / SECTOR_BYTES;
  const at = (sector: number, bytes: Uint8Array): Extent => ({ offset: sector * SECTOR_BYTES, bytes });
  return {
    sizeBytes: sectors * SECTOR_BYTES,
    extents: [
      at(AT.volume, volumeDescriptor(sectors)),
      at(AT.boot, bootDescriptor()),
      at(AT.end, descriptor(255)),
      at(AT.pathsLittle, pathTable('little')),
      at(AT.pathsBig, pathTable('big')),
      at(AT.root, rootDirectory()),
      at(AT.catalog, bootCatalog()),
      ...boot.map(({ offset, bytes }) => ({ offset: AT.image * SECTOR_BYTES + offset, bytes })),
    ],
  };
}

function descriptor(type: number): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.writeUInt8(type, 0);
  sector.write(STANDARD, 1, 'ascii');
  sector.writeUInt8(1, 6);
  return sector;
}

/** The primary volume descriptor (ECMA-119 §8.4). */
function volumeDescriptor(sectors: number): Buffer {
  const sector = descriptor(1);
  sector.fill(' ', 8, 72);
  sector.write('CLUSTER', 40, 'ascii');
  writeBoth32(sector, sectors, 80);
  for (const at of [120, 124]) writeBoth16(sector, 1, at); // one volume, which is the first
  writeBoth16(sector, SECTOR_BYTES, 128);
  writeBoth32(sector, PATH_TABLE_BYTES, 132);
  sector.writeUInt32LE(AT.pathsLittle, 140);
  sector.writeUInt32BE(AT.pathsBig, 148);
  sector.set(directoryEntry(0), 156);
  sector.fill(' ', 190, 813);
  for (const at of [813, 830, 847, 864]) sector.write(NO_DATE, at, 'ascii');
  sector.writeUInt8(1, 881);
  return sector;
}

/** Where the boot catalog is (El Torito 1.0, figure 7). */
function bootDescriptor(): Buffer {
  const sector = descriptor(0);
  sector.write('EL TORITO SPECIFICATION', 7, 'ascii');
  sector.writeUInt32LE(AT.catalog, 71);
  return sector;
}

/**
 * One entry for UEFI without emulation of a floppy or disk. A length of 0 means: to the end of the CD, since the field has only
 * 16 bits (UEFI 2.10 §13.3.2.1).
 */
function bootCatalog(): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.set([1, EFI_PLATFORM], 0);
  sector.set([0x55, 0xaa], 30);
  let sum = 0;
  for (let at = 0; at < 32; at += 2) sum += sector.readUInt16LE(at);
  sector.writeUInt16LE(-sum & 0xffff, 28); // the sum of all 16 words is zero
  sector.writeUInt8(BOOTABLE, 32);
  sector.writeUInt32LE(AT.image, 40);
  return sector;
}

/** Only the root directory (ECMA-119 §9.4). */
function pathTable(order: 'little' | 'big'): Buffer {
  const table = Buffer.alloc(SECTOR_BYTES);
  table.writeUInt8(1, 0);
  if (order === 'little') table.writeUInt32LE(AT.root, 2);
  else table.writeUInt32BE(AT.root, 2);
  if (order === 'little') table.writeUInt16LE(1, 6);
  else table.writeUInt16BE(1, 6);
  return table;
}

/** The directory itself, and its parent, which is the directory itself. */
function rootDirectory(): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.set(directoryEntry(0), 0);
  sector.set(directoryEntry(1), DIRECTORY_ENTRY_BYTES);
  return sector;
}

/** An entry for the root directory (ECMA-119 §9.1). @param name 0: the directory itself, 1: its parent */
function directoryEntry(name: 0 | 1): Buffer {
  const entry = Buffer.alloc(DIRECTORY_ENTRY_BYTES);
  entry.writeUInt8(DIRECTORY_ENTRY_BYTES, 0);
  writeBoth32(entry, AT.root, 2);
  writeBoth32(entry, SECTOR_BYTES, 10);
  entry.writeUInt8(DIRECTORY, 25);
  writeBoth16(entry, 1, 28);
  entry.writeUInt8(1, 32);
  entry.writeUInt8(name, 33);
  return entry;
}

/** A number in both byte orders (ECMA-119 §7.2.3 and §7.3.3). */
function writeBoth16(into: Buffer, value: number, at: number): void {
  into.writeUInt16LE(value, at);
  into.writeUInt16BE(value, at + 2);
}

function writeBoth32(into: Buffer, value: number, at: number): void {
  into.writeUInt32LE(value, at);
  into.writeUInt32BE(value, at + 4);
}
