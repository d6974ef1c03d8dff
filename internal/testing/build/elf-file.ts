/** The properties of a test ELF file. */
export interface ElfFixture {
  readonly interpreter?: string;
  readonly libraries?: readonly string[];
}

const HEADER = 64;
const SEGMENT = 56;
const BASE = 0x400000;

/** A small ELF64 file that needs a loader and libraries, for tests. It cannot run. */
export function elfFile(wanted: ElfFixture = {}): Uint8Array {
  const strings = Buffer.from(`\0${(wanted.libraries ?? []).map((each) => `${each}\0`).join('')}`);
  const interpreter = Buffer.from(wanted.interpreter === undefined ? '' : `${wanted.interpreter}\0`);
  const dynamic = dynamicTable(wanted.libraries ?? [], HEADER + 3 * SEGMENT);
  const bytes = Buffer.concat([Buffer.alloc(HEADER + 3 * SEGMENT), strings, interpreter, dynamic]);
  bytes.write('\u007fELF\u0002\u0001\u0001', 0, 'latin1');
  bytes.writeBigUInt64LE(BigInt(HEADER), 32);
  bytes.writeUInt16LE(SEGMENT, 54);
  bytes.writeUInt16LE(3, 56);
  const interpreterAt = HEADER + 3 * SEGMENT + strings.length;
  const segments = [
    { type: 1, at: 0, length: bytes.length },
    { type: wanted.interpreter === undefined ? 0 : 3, at: interpreterAt, length: interpreter.length },
    { type: dynamic.length === 0 ? 0 : 2, at: interpreterAt + interpreter.length, length: dynamic.length },
  ];
  for (const [index, { type, at, length }] of segments.entries()) {
    const header = HEADER + index * SEGMENT;
    bytes.writeUInt32LE(type, header);
    bytes.writeBigUInt64LE(BigInt(at), header + 8);
    bytes.writeBigUInt64LE(BigInt(BASE + at), header + 16);
    bytes.writeBigUInt64LE(BigInt(length), header + 32);
  }
  return bytes;
}

function dynamicTable(libraries: readonly string[], stringsAt: number): Buffer {
  if (libraries.length === 0) return Buffer.alloc(0);
  let offset = 1;
  const entries: [number, number][] = [[5, BASE + stringsAt]];
  for (const name of libraries) {
    entries.push([1, offset]);
    offset += name.length + 1;
  }
  entries.push([0, 0]);
  const table = Buffer.alloc(entries.length * 16);
  for (const [index, [tag, value]] of entries.entries()) {
    table.writeBigUInt64LE(BigInt(tag), index * 16);
    table.writeBigUInt64LE(BigInt(value), index * 16 + 8);
  }
  return table;
}
