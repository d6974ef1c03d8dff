import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { writeCpio, type CpioEntry } from './cpio.ts';
import { createDisk, STATE_TYPE } from './disk.ts';
import { fakeStub } from './fake-stub.ts';
import { writeFat32 } from './fat32.ts';
import { guidBytes, guidOf } from './gpt.ts';
import { addSections, authenticodeDigest } from './pe.ts';

const MIB = 2 ** 20;
const TWO_SECTIONS = ['.a', '.b'].map((name) => ({ name, content: Buffer.from(name) }));

describe('writeCpio()', () => {
  test('writes entries, aligned to four bytes, that a cpio reader can read', () => {
    const entries: readonly CpioEntry[] = [
      { kind: 'directory', path: 'etc', mode: 0o755 },
      { kind: 'file', path: 'etc/name', mode: 0o640, content: Buffer.from('hello') },
      { kind: 'symlink', path: 'init', target: 'etc/name' },
    ];
    const archive = Buffer.concat([...writeCpio(entries)]);
    expect(archive.length % 4).toBe(0);
    expect(readCpio(archive)).toEqual([
      { path: 'etc', mode: 0o040755, text: '' },
      { path: 'etc/name', mode: 0o100640, text: 'hello' },
      { path: 'init', mode: 0o120777, text: 'etc/name' },
      { path: 'TRAILER!!!', mode: 0, text: '' },
    ]);
  });
});

describe('addSections()', () => {
  test('adds sections at the addresses that their headers name, and drops the symbols of the EFI stub', () => {
    const stub = fakeStub(2, 'symbols');
    const image = addSections(stub, [
      { name: '.cmdline', content: Buffer.from('quiet') },
      { name: '.initrd', content: Buffer.alloc(5000, 7) },
    ]);
    const sections = readSections(image);
    expect(sections.map(({ name }) => name)).toEqual(['.s0', '.s1', '.cmdline', '.initrd']);
    const [, , commandLine, initrd] = sections;
    expect(commandLine?.content.toString()).toBe('quiet');
    expect(initrd?.content.equals(Buffer.alloc(5000, 7))).toBe(true);
    expect(sections.every(({ address }, index) => index < 2 || address % 4096 === 0)).toBe(true);
    expect(Buffer.from(image).includes('symbols')).toBe(false);
  });

  test.each([
    ['without room for a header', fakeStub(14), 'no room'],
    ['with a gap between sections', withGap(fakeStub(2)), 'does not follow'],
    ['that is truncated', fakeStub(2).subarray(0, 1024 + 300), 'truncated'],
    ['that is not a PE program', Buffer.alloc(2048), 'no MZ header'],
    ['of a 32-bit processor', with32Bits(fakeStub(2)), 'no PE32+ header'],
  ])('refuses an EFI stub %s', (_, stub, message) => {
    expect(() => addSections(stub, TWO_SECTIONS)).toThrow(
      expect.objectContaining({ code: 'image-pe', message: expect.stringContaining(message) }),
    );
  });
});

describe('authenticodeDigest()', () => {
  test('does not change with the checksum or a signature, and changes with every other byte', () => {
    const image = Buffer.from(addSections(fakeStub(1), [{ name: '.a', content: Buffer.from('a') }]));
    const digest = Buffer.from(authenticodeDigest(image)).toString('hex');
    const changed = (at: number): string => {
      const copy = Buffer.from(image);
      copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
      return Buffer.from(authenticodeDigest(copy)).toString('hex');
    };
    const optional = 0x80 + 24;
    expect(changed(optional + 64)).toBe(digest); // checksum
    for (const at of [2, optional + 16, 1023, 1024, image.length - 1]) expect(changed(at)).not.toBe(digest);
    const signed = Buffer.concat([image, Buffer.alloc(64, 9)]);
    signed.writeUInt32LE(image.length, optional + 144);
    signed.writeUInt32LE(64, optional + 148);
    expect(Buffer.from(authenticodeDigest(signed)).toString('hex')).toBe(digest);
  });
});

describe('createDisk()', () => {
  const files = [
    { path: 'EFI/BOOT/BOOTX64.EFI', content: Buffer.alloc(10_000, 1) },
    { path: 'loader/credentials/provisioning.cred', content: Buffer.from('{}') },
  ];

  test('writes two valid copies of the partition table, with the type of the state partition', () => {
    const { sizeBytes, extents } = createDisk(files, 64 * MIB);
    const start = Buffer.from(extents[0]?.bytes ?? []);
    const end = Buffer.from(extents.at(-1)?.bytes ?? []);
    expect((extents.at(-1)?.offset ?? 0) + end.length).toBe(sizeBytes);
    for (const [header, table] of [
      [start.subarray(512, 604), start.subarray(1024)],
      [end.subarray(-512, -420), end.subarray(0, -512)],
    ] as const) {
      const blank = Buffer.from(header);
      blank.fill(0, 16, 20);
      expect(header.toString('ascii', 0, 8)).toBe('EFI PART');
      expect(crc32(blank)).toBe(header.readUInt32LE(16));
      expect(crc32(table)).toBe(header.readUInt32LE(88));
    }
    const state = start.subarray(1024 + 128, 1024 + 256);
    expect(state.subarray(0, 16).equals(guidBytes(STATE_TYPE))).toBe(true);
    expect(state.toString('utf16le', 56, 56 + 2 * 'cluster-state'.length)).toBe('cluster-state');
  });

  test('gives the same bytes for the same files, and the same partition table for other files', () => {
    const one = createDisk(files, 64 * MIB);
    expect(createDisk(files, 64 * MIB)).toEqual(one);
    const other = createDisk([...files, { path: 'x', content: Buffer.from('x') }], 64 * MIB);
    expect(other.measuredTable).toEqual(one.measuredTable);
    expect(other.extents).not.toEqual(one.extents);
    expect(createDisk(files, 65 * MIB).measuredTable).not.toEqual(one.measuredTable);
  });

  test('refuses an image that leaves no room for a second one', () => {
    const large = { path: 'EFI/Linux/cluster-1.efi', content: Buffer.alloc(253 * MIB) };
    expect(() => createDisk([large], 64 * MIB)).toThrow(
      expect.objectContaining({
        code: 'image-too-large',
        message: expect.stringContaining('no room for two images'),
      }),
    );
  });

  test('refuses a state partition that is too small', () => {
    expect(() => createDisk(files, MIB)).toThrow(
      expect.objectContaining({ code: 'image-option', message: expect.stringContaining('--state-size') }),
    );
  });
});

describe('writeFat32()', () => {
  test('refuses files that do not fit', () => {
    const options = { sectors: 600_000, hiddenSectors: 0, clusterSectors: 8 };
    const content = Buffer.alloc(400 * MIB);
    expect(() => writeFat32([{ path: 'BIG', content }], options)).toThrow('do not fit');
    expect(() => writeFat32([], { ...options, sectors: 1000 })).toThrow('too small');
  });
});

test('guidOf() marks a GUID as derived from a hash', () => {
  const digest = createHash('sha256').update('x').digest();
  expect(guidOf(digest)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

function withGap(stub: Buffer): Buffer {
  stub.writeUInt32LE(2048, 0x80 + 24 + 240 + 40 + 20);
  return Buffer.concat([stub, Buffer.alloc(2048)]);
}

function with32Bits(stub: Buffer): Buffer {
  stub.writeUInt16LE(0x10b, 0x80 + 24);
  return stub;
}

function readSections(
  image: Uint8Array,
): readonly { readonly name: string; readonly address: number; readonly content: Buffer }[] {
  const bytes = Buffer.from(image);
  return Array.from({ length: bytes.readUInt16LE(0x80 + 6) }, (_, index) => {
    const at = 0x80 + 24 + 240 + index * 40;
    const from = bytes.readUInt32LE(at + 20);
    return {
      name: bytes.toString('ascii', at, at + 8).replaceAll('\0', ''),
      address: bytes.readUInt32LE(at + 12),
      content: bytes.subarray(from, from + bytes.readUInt32LE(at + 8)),
    };
  });
}

function readCpio(
  archive: Buffer,
): readonly { readonly path: string; readonly mode: number; readonly text: string }[] {
  const aligned = (value: number): number => Math.ceil(value / 4) * 4;
  const found = [];
  for (let at = 0; at < archive.length;) {
    const field = (index: number): number =>
      Number.parseInt(archive.toString('ascii', at + 6 + index * 8, at + 14 + index * 8), 16);
    const [mode, sizeBytes, nameBytes] = [field(1), field(6), field(11)];
    const path = archive.toString('utf8', at + 110, at + 110 + nameBytes - 1);
    const from = aligned(at + 110 + nameBytes);
    found.push({ path, mode, text: archive.toString('utf8', from, from + sizeBytes) });
    at = aligned(from + sizeBytes);
  }
  return found;
}
