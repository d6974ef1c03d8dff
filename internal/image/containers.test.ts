import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createDisk } from './disk.ts';
import { createIso } from './iso9660.ts';
import { createQcow2 } from './qcow2.ts';
import type { SparseFile } from './sparse-file.ts';

const MIB = 2 ** 20;
const CLUSTER = 65_536;
const SECTOR = 2048;
const FILES = [
  { path: 'EFI/BOOT/BOOTX64.EFI', content: Buffer.alloc(300_000, 1) },
  { path: 'loader/credentials/provisioning.cred', content: Buffer.from('{}') },
];

describe('createQcow2()', () => {
  const disk = createDisk(FILES, 64 * MIB);

  test('has the content of the disk, and no cluster that is zero', () => {
    const file = createQcow2(disk);
    expect(sha256(readQcow2(file))).toBe(sha256(wholeOf(disk)));
    expect(file.sizeBytes).toBeLessThan(3 * MIB);
    expect(createQcow2(disk)).toEqual(file);
  });

  test('leaves out clusters of an extent that are zero', () => {
    const bytes = Buffer.alloc(8 * CLUSTER);
    bytes.writeUInt8(1, 5 * CLUSTER + 7);
    const sparse = { sizeBytes: 16 * CLUSTER, extents: [{ offset: 3 * CLUSTER + 100, bytes }] };
    const file = createQcow2(sparse);
    expect(sha256(readQcow2(file))).toBe(sha256(wholeOf(sparse)));
    expect(createQcow2({ ...sparse, extents: [] }).sizeBytes).toBe(file.sizeBytes - 2 * CLUSTER);
  });

  test('has second tables only for the parts of a large disk that have content', () => {
    const at = 7_000 * 512 * MIB + 3 * CLUSTER;
    const sizeBytes = 16_384 * 512 * MIB;
    const file = createQcow2({ sizeBytes, extents: [{ offset: at, bytes: Buffer.from('far') }] });
    // header, table of counts, counts, two clusters of the first table, one second table, data
    expect(file.sizeBytes).toBe(7 * CLUSTER);
    const bytes = wholeOf(file);
    expect(bytes.readUInt32BE(36)).toBe(16_384);
    const second = Number(bytes.readBigUInt64BE(3 * CLUSTER + 7_000 * 8) & ~(1n << 63n));
    const data = Number(bytes.readBigUInt64BE(second + 3 * 8) & ~(1n << 63n));
    expect(bytes.toString('latin1', data, data + 3)).toBe('far');
  });

  test('refuses a disk that is too large for the format', () => {
    expect(() => createQcow2({ sizeBytes: 2 ** 71, extents: [] })).toThrow(
      expect.objectContaining({ code: 'image-option', message: expect.stringContaining('--state-size') }),
    );
  });

  test('counts each cluster of the file once', () => {
    const bytes = wholeOf(createQcow2(disk));
    const counts = bytes.subarray(2 * CLUSTER, 3 * CLUSTER);
    const used = bytes.length / CLUSTER;
    expect(Array.from({ length: used + 1 }, (_, index) => counts.readUInt16BE(index * 2))).toEqual([
      ...Array.from({ length: used }, () => 1),
      0,
    ]);
  });
});

describe('createIso()', () => {
  const iso = createIso(FILES);
  const bytes = wholeOf(iso);

  test('has a volume of the size of the file', () => {
    expect(bytes.toString('ascii', 16 * SECTOR + 1, 16 * SECTOR + 6)).toBe('CD001');
    expect(bytes.readUInt32LE(16 * SECTOR + 80)).toBe(bytes.length / SECTOR);
    expect(bytes.readUInt32BE(16 * SECTOR + 84)).toBe(bytes.length / SECTOR);
    expect(createIso(FILES)).toEqual(iso);
  });

  test('has one boot entry for UEFI, which is a file system with the files', () => {
    expect(bytes.toString('ascii', 17 * SECTOR + 7, 17 * SECTOR + 30)).toBe('EL TORITO SPECIFICATION');
    const catalog = bytes.subarray(bytes.readUInt32LE(17 * SECTOR + 71) * SECTOR);
    const sum = Array.from({ length: 16 }, (_, index) => catalog.readUInt16LE(index * 2)).reduce(
      (all, word) => all + word,
    );
    expect(sum & 0xffff).toBe(0);
    expect([...catalog.subarray(0, 2), ...catalog.subarray(30, 34)]).toEqual([1, 0xef, 0x55, 0xaa, 0x88, 0]);
    expect(catalog.readUInt16LE(38)).toBe(0); // to the end of the CD
    const fat = bytes.subarray(catalog.readUInt32LE(40) * SECTOR);
    expect(fat.toString('ascii', 82, 90)).toBe('FAT32   ');
    expect(fat.readUInt32LE(32) * 512).toBe(fat.length);
    expect(fat.includes(FILES[0]?.content ?? '')).toBe(true);
  });

  test('is not much larger than its files', () => {
    const large = [{ path: 'EFI/BOOT/BOOTX64.EFI', content: Buffer.alloc(100 * MIB, 1) }];
    expect(createIso(large).sizeBytes).toBeLessThan(103 * MIB);
  });
});

function wholeOf({ sizeBytes, extents }: SparseFile): Buffer {
  const whole = Buffer.alloc(sizeBytes);
  for (const { offset, bytes } of extents) whole.set(bytes, offset);
  return whole;
}

/** The content of a qcow2 file, as its tables say. */
function readQcow2(file: SparseFile): Buffer {
  const bytes = wholeOf(file);
  expect(bytes.toString('latin1', 0, 4)).toBe('QFI\xfb');
  const content = Buffer.alloc(Number(bytes.readBigUInt64BE(24)));
  const entry = (table: number, index: number): number =>
    Number(bytes.readBigUInt64BE(table + index * 8) & ~(1n << 63n));
  const first = Number(bytes.readBigUInt64BE(40));
  for (let at = 0; at < content.length; at += CLUSTER) {
    const cluster = at / CLUSTER;
    const second = entry(first, Math.floor(cluster / 8192));
    const host = second === 0 ? 0 : entry(second, cluster % 8192);
    if (host !== 0) content.set(bytes.subarray(host, host + CLUSTER).subarray(0, content.length - at), at);
  }
  return content;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
