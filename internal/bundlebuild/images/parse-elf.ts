/**
 * The files that an ELF64 little-endian file needs at runtime, which the dynamic loader loads (System V ABI, chapter
 * 5).
 */
export interface ElfNeeds {
  /** PT_INTERP: the path of the loader; undefined for libraries and static programs. */
  readonly interpreter: string | undefined;
  /** DT_NEEDED: the names of the libraries. */
  readonly libraries: readonly string[];
}

const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_INTERP = 3;
const DT_NULL = 0;
const DT_NEEDED = 1;
const DT_STRTAB = 5;
const DT_ENTRY_BYTES = 16;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly sizeBytes: number;
}

/**
 * Used only for files that this machine has unpacked itself. @throws RangeError for a truncated file,
 * TypeError for a file that is not ELF64 little-endian
 */
export function parseElfNeeds(file: Uint8Array): ElfNeeds {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  if (bytes.toString('latin1', 0, 6) !== '\u007fELF\u0002\u0001') {
    throw new TypeError('parsing ELF file: not ELF64 little-endian');
  }
  const segments = readSegments(bytes);
  const interpreter = segments.find((each) => each.type === PT_INTERP);
  const dynamic = segments.find((each) => each.type === PT_DYNAMIC);
  return {
    interpreter: interpreter === undefined ? undefined : stringAt(bytes, interpreter.offset),
    libraries: dynamic === undefined ? [] : readNeeded(bytes, dynamic, segments),
  };
}

function readSegments(bytes: Buffer): readonly Segment[] {
  const start = Number(bytes.readBigUInt64LE(32));
  const entryBytes = bytes.readUInt16LE(54);
  return Array.from({ length: bytes.readUInt16LE(56) }, (_, index) => {
    const at = start + index * entryBytes;
    return {
      type: bytes.readUInt32LE(at),
      offset: Number(bytes.readBigUInt64LE(at + 8)),
      address: Number(bytes.readBigUInt64LE(at + 16)),
      sizeBytes: Number(bytes.readBigUInt64LE(at + 32)),
    };
  });
}

function readNeeded(bytes: Buffer, dynamic: Segment, segments: readonly Segment[]): readonly string[] {
  const needed: number[] = [];
  let stringsAddress: number | undefined;
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.sizeBytes; at += DT_ENTRY_BYTES) {
    const tag = Number(bytes.readBigUInt64LE(at));
    const value = Number(bytes.readBigUInt64LE(at + 8));
    if (tag === DT_NULL) break;
    if (tag === DT_NEEDED) needed.push(value);
    if (tag === DT_STRTAB) stringsAddress = value;
  }
  if (needed.length === 0) return [];
  // DT_STRTAB is a memory address. Its offset in the file follows from the segment that is loaded at this address.
  const address = stringsAddress ?? -1;
  const segment = segments.find(
    (each) => each.type === PT_LOAD && address >= each.address && address < each.address + each.sizeBytes,
  );
  if (segment === undefined) throw new TypeError('parsing ELF file: string table not in the file');
  const strings = address - segment.address + segment.offset;
  return needed.map((offset) => stringAt(bytes, strings + offset));
}

function stringAt(bytes: Buffer, at: number): string {
  const end = bytes.indexOf(0, at);
  if (end === -1 || at > bytes.length) throw new RangeError('parsing ELF file: truncated');
  return bytes.toString('utf8', at, end);
}
