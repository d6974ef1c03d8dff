import { createHash } from 'node:crypto';
import { ImageError } from './errors.ts';
import { SECTOR_BYTES } from './gpt.ts';
import type { Extent } from './sparse-file.ts';

/** A file of the boot partition. `path` is separated by slashes: `EFI/BOOT/BOOTX64.EFI`. */
export interface FatFile {
  readonly path: string;
  readonly content: Uint8Array;
}

/** The size of a file system, and its place on the disk. */
export interface FatVolume {
  readonly sectors: number;
  readonly hiddenSectors: number;
  /** Sectors of a cluster, at most 128. */
  readonly clusterSectors: number;
}

/** Layout of the file system (Microsoft, "FAT32 File System Specification", 2000). */
const RESERVED_SECTORS = 32;
const COPIES = 2;
/** With fewer clusters, readers take the file system for FAT16. */
const MIN_CLUSTERS = 65_525;
/** For the root directory and long names. */
const CLUSTERS_TO_SPARE = 8;
const ALIGNMENT_SECTORS = 2048;
const FIRST_CLUSTER = 2;
const END_OF_CHAIN = 0x0fff_ffff;
const MEDIA = 0xf8;
const ENTRY_BYTES = 32;
const DIRECTORY = 0x10;
const ARCHIVE = 0x20;
const LONG_NAME = 0x0f;
const LONG_NAME_CHARACTERS = 13;
/** 1980-01-01, the earliest date of the format. */
const DATE = 0x0021;

interface Directory {
  readonly directories: Map<string, Directory>;
  readonly files: Map<string, Uint8Array>;
}

/**
 * Makes a FAT32 file system with the files. The bytes depend on the arguments alone: times are the earliest of the format.
 * @throws ImageError `image-too-large`
 */
export function writeFat32(files: readonly FatFile[], options: FatVolume): readonly Extent[] {
  const clusters = countClusters(options);
  if (clusters < MIN_CLUSTERS)
    throw new ImageError('image-too-large', `a boot partition of ${options.sectors} sectors is too small`);
  const volume = new Volume(clusters, options.clusterSectors * SECTOR_BYTES);
  volume.addDirectory(treeOf(files), undefined);
  const tableSectors = tableSectorsFor(clusters);
  const boot = bootSector({ ...options, tableSectors, serial: serialOf(files) });
  const info = infoSector(clusters - volume.used, FIRST_CLUSTER + volume.used);
  const table = volume.table(tableSectors);
  const data = RESERVED_SECTORS + COPIES * tableSectors;
  return [
    { offset: 0, bytes: boot },
    { offset: SECTOR_BYTES, bytes: info },
    { offset: 6 * SECTOR_BYTES, bytes: boot },
    { offset: 7 * SECTOR_BYTES, bytes: info },
    ...Array.from({ length: COPIES }, (_, copy) => ({
      offset: (RESERVED_SECTORS + copy * tableSectors) * SECTOR_BYTES,
      bytes: table,
    })),
    ...volume.extents.map(({ offset, bytes }) => ({ offset: data * SECTOR_BYTES + offset, bytes })),
  ];
}

/** The number of sectors of a file system with room for these files `images` times. */
export function sectorsFor(
  files: readonly FatFile[],
  { clusterSectors, images }: { readonly clusterSectors: number; readonly images: number },
): number {
  const clusterBytes = clusterSectors * SECTOR_BYTES;
  const bytes = files.reduce((sum, { content }) => sum + content.length + 2 * clusterBytes, 0);
  const clusters = Math.max(MIN_CLUSTERS, Math.ceil((images * bytes) / clusterBytes)) + CLUSTERS_TO_SPARE;
  const sectors = RESERVED_SECTORS + COPIES * tableSectorsFor(clusters) + clusters * clusterSectors;
  return Math.ceil(sectors / ALIGNMENT_SECTORS) * ALIGNMENT_SECTORS;
}

/** The clusters in which files and directories are placed, one after the other and never fragmented. */
class Volume {
  readonly extents: Extent[] = [];
  readonly #next: number[] = [];
  readonly #clusters: number;
  readonly #clusterBytes: number;

  constructor(clusters: number, clusterBytes: number) {
    this.#clusters = clusters;
    this.#clusterBytes = clusterBytes;
  }

  get used(): number {
    return this.#next.length;
  }

  /** Returns the first cluster of the directory. The root has no parent. */
  addDirectory(directory: Directory, parent: number | undefined): number {
    const names = [...directory.directories.keys(), ...directory.files.keys()].sort();
    const isRoot = parent === undefined;
    const entries = names.reduce((sum, name) => sum + entriesFor(name), isRoot ? 0 : 2);
    const bytes = Buffer.alloc(Math.max(1, entries) * ENTRY_BYTES);
    const own = this.#place(bytes);
    const above = parent === FIRST_CLUSTER ? 0 : (parent ?? 0);
    const encoded = isRoot ? [] : [shortEntry('.', DIRECTORY, own, 0), shortEntry('..', DIRECTORY, above, 0)];
    for (const [index, name] of names.entries()) {
      const below = directory.directories.get(name);
      const content = directory.files.get(name) ?? new Uint8Array();
      const first = below === undefined ? this.#place(content) : this.addDirectory(below, own);
      const short = isShort(name) ? name : `FILE${String(index).padStart(4, '0')}`;
      const kind = below === undefined ? ARCHIVE : DIRECTORY;
      encoded.push(...(isShort(name) ? [] : longEntries(name, short)));
      encoded.push(shortEntry(short, kind, first, content.length));
    }
    bytes.set(Buffer.concat(encoded));
    return own;
  }

  /** The file allocation table. */
  table(sectors: number): Uint8Array {
    const table = Buffer.alloc(sectors * SECTOR_BYTES);
    for (const [index, value] of [0x0fff_ff00 | MEDIA, END_OF_CHAIN, ...this.#next].entries())
      table.writeUInt32LE(value, index * 4);
    return table;
  }

  /** Empty files have no cluster. */
  #place(bytes: Uint8Array): number {
    if (bytes.length === 0) return 0;
    const first = FIRST_CLUSTER + this.#next.length;
    const count = Math.ceil(bytes.length / this.#clusterBytes);
    if (this.#next.length + count > this.#clusters)
      throw new ImageError('image-too-large', 'the files do not fit into the boot partition');
    for (let index = 1; index <= count; index++)
      this.#next.push(index === count ? END_OF_CHAIN : first + index);
    this.extents.push({ offset: (first - FIRST_CLUSTER) * this.#clusterBytes, bytes });
    return first;
  }
}

function treeOf(files: readonly FatFile[]): Directory {
  const root: Directory = { directories: new Map(), files: new Map() };
  for (const { path, content } of files) {
    const names = path.split('/');
    const name = names.pop() ?? '';
    let at = root;
    for (const each of names) {
      const below = at.directories.get(each) ?? { directories: new Map(), files: new Map() };
      at.directories.set(each, below);
      at = below;
    }
    at.files.set(name, content);
  }
  return root;
}

/** Whether a name fits into a short entry as it is: eight and three characters, upper case. */
function isShort(name: string): boolean {
  return /^[A-Z0-9_-]{1,8}(\.[A-Z0-9_-]{1,3})?$/.test(name);
}

function entriesFor(name: string): number {
  return isShort(name) ? 1 : 1 + Math.ceil(name.length / LONG_NAME_CHARACTERS);
}

function shortName(name: string): Buffer {
  if (/^\.+$/.test(name)) return Buffer.from(name.padEnd(11));
  const [base = '', extension = ''] = name.split('.');
  return Buffer.from(base.padEnd(8) + extension.padEnd(3));
}

function shortEntry(name: string, attributes: number, cluster: number, sizeBytes: number): Uint8Array {
  const entry = Buffer.alloc(ENTRY_BYTES);
  entry.set(shortName(name), 0);
  entry.writeUInt8(attributes, 11);
  for (const at of [16, 18, 24]) entry.writeUInt16LE(DATE, at); // created, read, written
  entry.writeUInt16LE(cluster >>> 16, 20);
  entry.writeUInt16LE(cluster & 0xffff, 26);
  entry.writeUInt32LE(sizeBytes, 28);
  return entry;
}

/** The directory entries that contain the long name, last part first. They precede the entry with the short name. */
function longEntries(name: string, short: string): readonly Uint8Array[] {
  const checksum = shortName(short).reduce((sum, byte) => (((sum & 1) << 7) + (sum >> 1) + byte) & 0xff, 0);
  const count = Math.ceil(name.length / LONG_NAME_CHARACTERS);
  // After the end of the name: one zero, then 0xFFFF.
  const characters = Buffer.alloc(count * LONG_NAME_CHARACTERS * 2, 0xff);
  characters.write(`${name}\0`, 'utf16le');
  return Array.from({ length: count }, (_, index) => {
    const number = count - index;
    const part = characters.subarray((number - 1) * LONG_NAME_CHARACTERS * 2);
    const entry = Buffer.alloc(ENTRY_BYTES);
    entry.writeUInt8(number | (index === 0 ? 0x40 : 0), 0);
    entry.set(part.subarray(0, 10), 1);
    entry.writeUInt8(LONG_NAME, 11);
    entry.writeUInt8(checksum, 13);
    entry.set(part.subarray(10, 22), 14);
    entry.set(part.subarray(22, 26), 28);
    return entry;
  });
}

function countClusters({ sectors, clusterSectors }: FatVolume): number {
  // The file allocation table needs sectors too. Each step reduces the number of clusters until the table and the
  // clusters fit.
  let clusters = Math.floor((sectors - RESERVED_SECTORS) / clusterSectors);
  while (RESERVED_SECTORS + COPIES * tableSectorsFor(clusters) + clusters * clusterSectors > sectors)
    clusters--;
  return clusters;
}

function tableSectorsFor(clusters: number): number {
  return Math.ceil(((clusters + FIRST_CLUSTER) * 4) / SECTOR_BYTES);
}

/** The serial number of the file system follows from its content. */
function serialOf(files: readonly FatFile[]): number {
  const hash = createHash('sha256');
  for (const { path, content } of files) hash.update(`${path}\0${content.length}\0`).update(content);
  return hash.digest().readUInt32LE(0);
}

function bootSector(
  options: FatVolume & { readonly tableSectors: number; readonly serial: number },
): Uint8Array {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.set([0xeb, 0x58, 0x90], 0);
  sector.write('CLUSTER ', 3, 'ascii');
  sector.writeUInt16LE(SECTOR_BYTES, 11);
  sector.writeUInt8(options.clusterSectors, 13);
  sector.writeUInt16LE(RESERVED_SECTORS, 14);
  sector.writeUInt8(COPIES, 16);
  sector.writeUInt8(MEDIA, 21);
  sector.writeUInt16LE(32, 24); // sectors of a track, heads: not used
  sector.writeUInt16LE(64, 26);
  sector.writeUInt32LE(options.hiddenSectors, 28);
  sector.writeUInt32LE(options.sectors, 32);
  sector.writeUInt32LE(options.tableSectors, 36);
  sector.writeUInt32LE(FIRST_CLUSTER, 44);
  sector.writeUInt16LE(1, 48); // sector with the free counts
  sector.writeUInt16LE(6, 50); // sector with the copy of this sector
  sector.writeUInt8(0x80, 64);
  sector.writeUInt8(0x29, 66);
  sector.writeUInt32LE(options.serial, 67);
  sector.write('NO NAME    FAT32   ', 71, 'ascii');
  sector.set([0x55, 0xaa], 510);
  return sector;
}

function infoSector(free: number, next: number): Uint8Array {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.write('RRaA', 0, 'ascii');
  sector.write('rrAa', 484, 'ascii');
  sector.writeUInt32LE(free, 488);
  sector.writeUInt32LE(next, 492);
  sector.set([0x55, 0xaa], 510);
  return sector;
}
