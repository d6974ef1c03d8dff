import { createHash } from 'node:crypto';
import { refuse } from './errors.ts';
import { LAYOUT } from './layout.ts';

/** Magic of the first and of the second copy (LUKS2 On-Disk Format Specification 1.1, 2.1). */
const MAGIC = {
  first: Buffer.from('4c554b53babe', 'hex'),
  second: Buffer.from('534b554cbabe', 'hex'),
} as const;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const CHECKSUM = { offset: 448, bytes: 64 } as const;
const SHA256_BYTES = 32;

/** One copy of a header. */
export interface HeaderCopy {
  readonly uuid: string;
  /** Grows with each write. */
  readonly sequence: bigint;
  /** The metadata as text, without the zeros after it. */
  readonly json: string;
}

/**
 * Parses one copy of a header from disk: every byte is controlled by an attacker.
 * @throws LuksError
 */
export function parseHeaderCopy(disk: Uint8Array, which: keyof typeof MAGIC): HeaderCopy {
  const offset = which === 'first' ? 0 : LAYOUT.copyBytes;
  const copy = Buffer.from(disk.subarray(offset, offset + LAYOUT.copyBytes));
  if (copy.length !== LAYOUT.copyBytes) refuse('luks-truncated', `${which} copy`, copy.length);
  if (!copy.subarray(0, 6).equals(MAGIC[which])) refuse('luks-magic', `${which} copy`);
  const version = copy.readUInt16BE(6);
  if (version !== 2) refuse('luks-version', `${which} copy`, version);
  const size = copy.readBigUInt64BE(8);
  if (size !== BigInt(LAYOUT.copyBytes)) refuse('luks-size', 'size of a copy', size.toString());
  if (copy.readBigUInt64BE(256) !== BigInt(offset)) refuse('luks-size', 'offset of a copy');
  checkChecksum(copy, which);
  if (textAt(copy, 24, 48) !== '' || textAt(copy, 208, 48) !== '') refuse('luks-label', 'label or subsystem');
  if (!isZero(copy.subarray(264, CHECKSUM.offset)) || !isZero(copy.subarray(512, LAYOUT.binaryBytes)))
    refuse('luks-label', 'bytes in the padding');
  const uuid = textAt(copy, 168, 40);
  if (!UUID.test(uuid)) refuse('luks-uuid', 'malformed', uuid);
  return { uuid, sequence: copy.readBigUInt64BE(16), json: jsonOf(copy) };
}

/** The checksum covers the copy with zeros in place of the checksum. */
function checkChecksum(copy: Buffer, which: string): void {
  if (textAt(copy, 72, 32) !== 'sha256') refuse('luks-checksum', 'algorithm', textAt(copy, 72, 32));
  const stored = copy.subarray(CHECKSUM.offset, CHECKSUM.offset + CHECKSUM.bytes);
  const blank = Buffer.from(copy);
  blank.fill(0, CHECKSUM.offset, CHECKSUM.offset + CHECKSUM.bytes);
  const computed = createHash('sha256').update(blank).digest();
  if (!stored.subarray(0, SHA256_BYTES).equals(computed) || !isZero(stored.subarray(SHA256_BYTES)))
    refuse('luks-checksum', `${which} copy`);
}

function jsonOf(copy: Buffer): string {
  const area = copy.subarray(LAYOUT.binaryBytes);
  const end = area.indexOf(0);
  if (end <= 0 || !isZero(area.subarray(end)))
    refuse('luks-json', 'the metadata have no end, or bytes after the end');
  return area.toString('latin1', 0, end);
}

/**
 * The text of a field that is padded with zeros. A zero byte before the padding stays in the text, and the caller
 * refuses such a text.
 */
function textAt(copy: Buffer, offset: number, bytes: number): string {
  return copy.toString('latin1', offset, offset + bytes).replace(/\0+$/, '');
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((each) => each === 0);
}
