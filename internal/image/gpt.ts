import { crc32 } from 'node:zlib';

/** Bytes of a sector. Larger sectors of a real disk are not supported. */
export const SECTOR_BYTES = 512;
/** Number of sectors before the first partition: 1 MiB. */
export const FIRST_PARTITION_SECTOR = 2048;
/** Sectors at the end of the disk for the copy of the table. */
export const COPY_SECTORS = 33;

const ENTRIES = 128;
const ENTRY_BYTES = 128;
const HEADER_BYTES = 92;
const REVISION = 0x0001_0000;
const ENTRIES_SECTORS = (ENTRIES * ENTRY_BYTES) / SECTOR_BYTES;

/** A partition of the disk. */
export interface Partition {
  readonly type: string;
  readonly id: string;
  readonly name: string;
  readonly firstSector: number;
  readonly lastSector: number;
}

/** The partition table of a disk. */
export interface PartitionTable {
  readonly diskId: string;
  readonly sectors: number;
  readonly partitions: readonly Partition[];
}

/**
 * The sectors of a GUID partition table (UEFI 2.10 §5.3), and the part of the table that firmware measures into the
 * TPM.
 */
export interface EncodedTable {
  /** The first sectors of the disk: protective MBR, header, entries. */
  readonly start: Uint8Array;
  /** The last sectors of the disk: entries, header. */
  readonly end: Uint8Array;
  /** UEFI_GPT_DATA: the header, the number of partitions, their entries (TCG PC Client Firmware Profile §10.4.4). */
  readonly measured: Uint8Array;
}

/** Encodes a partition table. The bytes depend on the argument alone. */
export function encodeTable(table: PartitionTable): EncodedTable {
  const entries = Buffer.alloc(ENTRIES * ENTRY_BYTES);
  for (const [index, partition] of table.partitions.entries())
    entries.set(entryOf(partition), index * ENTRY_BYTES);
  const last = table.sectors - 1;
  const primary = headerOf(table, entries, { own: 1, other: last, entries: 2 });
  const copy = headerOf(table, entries, { own: last, other: 1, entries: last - ENTRIES_SECTORS });
  const count = Buffer.alloc(8);
  count.writeBigUInt64LE(BigInt(table.partitions.length));
  const used = entries.subarray(0, table.partitions.length * ENTRY_BYTES);
  return {
    start: Buffer.concat([protectiveMbr(table.sectors), sectorOf(primary), entries]),
    end: Buffer.concat([entries, sectorOf(copy)]),
    measured: Buffer.concat([primary, count, used]),
  };
}

function headerOf(
  { diskId, sectors }: PartitionTable,
  entries: Uint8Array,
  at: { readonly own: number; readonly other: number; readonly entries: number },
): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write('EFI PART', 0, 'ascii');
  header.writeUInt32LE(REVISION, 8);
  header.writeUInt32LE(HEADER_BYTES, 12);
  header.writeBigUInt64LE(BigInt(at.own), 24);
  header.writeBigUInt64LE(BigInt(at.other), 32);
  header.writeBigUInt64LE(BigInt(2 + ENTRIES_SECTORS), 40); // first usable sector
  header.writeBigUInt64LE(BigInt(sectors - COPY_SECTORS - 1), 48); // last usable sector
  header.set(guidBytes(diskId), 56);
  header.writeBigUInt64LE(BigInt(at.entries), 72);
  header.writeUInt32LE(ENTRIES, 80);
  header.writeUInt32LE(ENTRY_BYTES, 84);
  header.writeUInt32LE(crc32(entries), 88);
  header.writeUInt32LE(crc32(header), 16);
  return header;
}

function entryOf({ type, id, name, firstSector, lastSector }: Partition): Uint8Array {
  const entry = Buffer.alloc(ENTRY_BYTES);
  entry.set(guidBytes(type), 0);
  entry.set(guidBytes(id), 16);
  entry.writeBigUInt64LE(BigInt(firstSector), 32);
  entry.writeBigUInt64LE(BigInt(lastSector), 40);
  entry.write(name, 56, 72, 'utf16le');
  return entry;
}

/**
 * One MBR partition of type 0xEE over the whole disk, so that programs without support for GPT do not take the disk for
 * an empty disk.
 */
function protectiveMbr(sectors: number): Uint8Array {
  const mbr = Buffer.alloc(SECTOR_BYTES);
  mbr.set([0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff], 446);
  mbr.writeUInt32LE(1, 454);
  mbr.writeUInt32LE(Math.min(sectors - 1, 0xffff_ffff), 458);
  mbr.set([0x55, 0xaa], 510);
  return mbr;
}

function sectorOf(header: Uint8Array): Uint8Array {
  const sector = Buffer.alloc(SECTOR_BYTES);
  sector.set(header);
  return sector;
}

/** The bytes of a GUID: the first three fields are little-endian (UEFI, appendix A). */
export function guidBytes(text: string): Uint8Array {
  const [a = '', b = '', c = '', d = '', e = ''] = text.split('-');
  const flipped = [a, b, c].map((part) => Buffer.from(part, 'hex').reverse());
  return Buffer.concat([...flipped, Buffer.from(d + e, 'hex')]);
}

/** A GUID made of the first 16 bytes of a hash, marked as version 8 (RFC 9562 §5.8). */
export function guidOf(digest: Uint8Array): string {
  const bytes = Buffer.from(digest.subarray(0, 16));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
