import { ImageError } from './errors.ts';
import type { Extent, SparseFile } from './sparse-file.ts';

/** Layout of the format (QEMU, docs/interop/qcow2.txt). All numbers are big-endian. */
const VERSION = 3;
const CLUSTER_BITS = 16;
const CLUSTER_BYTES = 2 ** CLUSTER_BITS;
const HEADER_BYTES = 104;
/** Number of entries of 8 bytes in one cluster: of a table, and of its second level. */
const TABLE_ENTRIES = CLUSTER_BYTES / 8;
/** Reference counts have 2^4 bits. */
const COUNT_ORDER = 4;
const COUNTS = CLUSTER_BYTES / 2;
/** Exactly one reference leads to this cluster, so that a writer needs no copy. */
const UNSHARED = 1n << 63n;
const ZEROS = Buffer.alloc(CLUSTER_BYTES);

/**
 * The disk in the format qcow2, version 3. Clusters that are zero are not in the file. The bytes depend on the content alone.
 *
 * ```
 *  header │ table of counts │ counts │ first table │ second tables │ data
 * ```
 *
 * @throws ImageError `image-option`
 */
export function createQcow2(disk: SparseFile): SparseFile {
  const data = usedClusters(disk.extents);
  const regions = [...new Set(data.map((cluster) => Math.floor(cluster / TABLE_ENTRIES)))];
  const firstEntries = Math.ceil(disk.sizeBytes / CLUSTER_BYTES / TABLE_ENTRIES);
  const firstClusters = Math.ceil(firstEntries / TABLE_ENTRIES);
  const others = 2 + firstClusters + regions.length + data.length;
  let counts = 1;
  while (counts * COUNTS < others + counts) counts++;
  if (counts > TABLE_ENTRIES) throw new ImageError('image-option', '--state-size: too large for qcow2');

  const firstAt = 2 + counts;
  const secondAt = firstAt + firstClusters;
  const dataAt = secondAt + regions.length;
  const hostOf = new Map(data.map((cluster, index) => [cluster, dataAt + index]));

  const header = headerOf({ sizeBytes: disk.sizeBytes, firstEntries, firstAt });
  const first = Buffer.alloc(firstClusters * CLUSTER_BYTES);
  const second = Buffer.alloc(regions.length * CLUSTER_BYTES);
  for (const [index, region] of regions.entries())
    first.writeBigUInt64BE(reference(secondAt + index) | UNSHARED, region * 8);
  for (const [cluster, host] of hostOf) {
    const table = regions.indexOf(Math.floor(cluster / TABLE_ENTRIES));
    const at = table * CLUSTER_BYTES + (cluster % TABLE_ENTRIES) * 8;
    second.writeBigUInt64BE(reference(host) | UNSHARED, at);
  }
  const total = others + counts;
  return {
    sizeBytes: total * CLUSTER_BYTES,
    extents: [
      { offset: 0, bytes: header },
      { offset: CLUSTER_BYTES, bytes: countTable(counts) },
      { offset: 2 * CLUSTER_BYTES, bytes: countsOf(total, counts) },
      { offset: firstAt * CLUSTER_BYTES, bytes: first },
      { offset: secondAt * CLUSTER_BYTES, bytes: second },
      ...disk.extents.flatMap((extent) => placed(extent, hostOf)),
    ],
  };
}

function headerOf(disk: {
  readonly sizeBytes: number;
  readonly firstEntries: number;
  readonly firstAt: number;
}): Uint8Array {
  const header = Buffer.alloc(CLUSTER_BYTES); // ends with a header extension of type 0: no more extensions
  header.write('QFI\xfb', 0, 'latin1');
  header.writeUInt32BE(VERSION, 4);
  header.writeUInt32BE(CLUSTER_BITS, 20);
  header.writeBigUInt64BE(BigInt(disk.sizeBytes), 24);
  header.writeUInt32BE(disk.firstEntries, 36);
  header.writeBigUInt64BE(reference(disk.firstAt), 40);
  header.writeBigUInt64BE(reference(1), 48);
  header.writeUInt32BE(1, 56); // clusters of the table of counts
  header.writeUInt32BE(COUNT_ORDER, 96);
  header.writeUInt32BE(HEADER_BYTES, 100);
  return header;
}

function countTable(counts: number): Uint8Array {
  const table = Buffer.alloc(CLUSTER_BYTES);
  for (let index = 0; index < counts; index++) table.writeBigUInt64BE(reference(2 + index), index * 8);
  return table;
}

/** Each cluster of the file has one reference. */
function countsOf(total: number, counts: number): Uint8Array {
  const bytes = Buffer.alloc(counts * CLUSTER_BYTES);
  for (let cluster = 0; cluster < total; cluster++) bytes.writeUInt16BE(1, cluster * 2);
  return bytes;
}

function reference(cluster: number): bigint {
  return BigInt(cluster) * BigInt(CLUSTER_BYTES);
}

/** The clusters of the disk that have a byte that is not zero, in ascending order. */
function usedClusters(extents: readonly Extent[]): readonly number[] {
  const used = new Set<number>();
  for (const extent of extents)
    for (const { cluster, bytes } of pieces(extent))
      if (!ZEROS.subarray(0, bytes.length).equals(bytes)) used.add(cluster);
  return [...used].sort((a, b) => a - b);
}

/** The bytes of an extent of the disk, at their places in the file. */
function placed(extent: Extent, hostOf: ReadonlyMap<number, number>): readonly Extent[] {
  return pieces(extent).flatMap(({ cluster, within, bytes }) => {
    const host = hostOf.get(cluster);
    return host === undefined ? [] : [{ offset: host * CLUSTER_BYTES + within, bytes }];
  });
}

interface Piece {
  readonly cluster: number;
  /** Offset of the bytes in the cluster. */
  readonly within: number;
  readonly bytes: Uint8Array;
}

function pieces({ offset, bytes }: Extent): readonly Piece[] {
  const found: Piece[] = [];
  for (let at = 0; at < bytes.length;) {
    const within = (offset + at) % CLUSTER_BYTES;
    const length = Math.min(bytes.length - at, CLUSTER_BYTES - within);
    found.push({
      cluster: (offset + at - within) / CLUSTER_BYTES,
      within,
      bytes: bytes.subarray(at, at + length),
    });
    at += length;
  }
  return found;
}
