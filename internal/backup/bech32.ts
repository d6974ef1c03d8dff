import { BackupError } from './errors.ts';

const ALPHABET = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
const CHECKSUM_WORDS = 6;
const KEY_BYTES = 32;

/** Encodes 32 bytes as Bech32 (BIP 173), lower case, as age does for its keys. */
export function bech32Encode(prefix: string, bytes: Uint8Array): string {
  const words = regroup(bytes, 8, 5, true);
  const checksum = polymod([...expand(prefix), ...words, 0, 0, 0, 0, 0, 0]) ^ 1;
  const tail = Array.from({ length: CHECKSUM_WORDS }, (_, i) => (checksum >>> (5 * (5 - i))) & 31);
  return `${prefix}1${[...words, ...tail].map((word) => ALPHABET[word]).join('')}`;
}

/** Decodes 32 bytes with this prefix, in lower or upper case. @throws BackupError `backup-recipient-invalid` */
export function bech32Decode(prefix: string, text: string): Uint8Array {
  const invalid = (why: string): BackupError =>
    new BackupError('backup-recipient-invalid', `reading a recovery key of the form ${prefix}1…: ${why}`);
  const lower = text.toLowerCase();
  if (text !== lower && text !== text.toUpperCase()) throw invalid('upper and lower case mixed');
  if (!lower.startsWith(`${prefix}1`)) throw invalid(`the text does not start with ${prefix}1`);
  const words = [...lower.slice(prefix.length + 1)].map((letter) => ALPHABET.indexOf(letter));
  if (words.includes(-1)) throw invalid('a character that Bech32 does not have');
  if (polymod([...expand(prefix), ...words]) !== 1) throw invalid('wrong checksum');
  const data = words.slice(0, -CHECKSUM_WORDS);
  const bytes = Uint8Array.from(regroup(data, 5, 8, false));
  if (bytes.length !== KEY_BYTES || bech32Encode(prefix, bytes) !== lower)
    throw invalid(`not the encoding of ${KEY_BYTES} bytes`);
  return bytes;
}

function regroup(values: Iterable<number>, from: number, to: number, pad: boolean): number[] {
  const out: number[] = [];
  let [held, bits] = [0, 0];
  for (const value of values) {
    held = ((held << from) | value) & 0xfff;
    bits += from;
    while (bits >= to) {
      bits -= to;
      out.push((held >>> bits) & ((1 << to) - 1));
    }
  }
  if (pad && bits > 0) out.push((held << (to - bits)) & ((1 << to) - 1));
  return out;
}

function expand(prefix: string): number[] {
  const codes = [...prefix].map((letter) => letter.charCodeAt(0));
  return [...codes.map((code) => code >>> 5), 0, ...codes.map((code) => code & 31)];
}

function polymod(words: readonly number[]): number {
  let sum = 1;
  for (const word of words) {
    const top = sum >>> 25;
    sum = ((sum & 0x1ffffff) << 5) ^ word;
    for (const [i, generator] of GENERATOR.entries()) if ((top >>> i) & 1) sum ^= generator;
  }
  return sum >>> 0;
}
