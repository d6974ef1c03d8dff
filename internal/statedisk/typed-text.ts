import { createHash } from 'node:crypto';

/** The digits of Crockford's Base32, without letters that look like digits. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const DIGIT_BITS = 5;
/** Digits of a group before its check digit. */
const DATA_DIGITS = 4;
const GROUP_DIGITS = DATA_DIGITS + 1;
const GROUP_BITS = DATA_DIGITS * DIGIT_BITS;
/** x⁵ + x² + 1, the polynomial of GF(32). */
const POLYNOMIAL = 0b10_0101;
const GROUPS_PER_LINE = 7;
/** Longer input is refused unread. */
const MAX_INPUT_CHARS = 1000;

/** The length in bytes of each kind of text. */
const BYTES = { challenge: 64, code: 16 } as const;

/** A text that a person types: the challenge at the workstation, the code at the console. */
export type TypedKind = keyof typeof BYTES;

/** The bytes of a typed text, or where it was mistyped. `why` has nothing of the text. */
export type TypedBytes =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'mistyped'; readonly why: string };

/** The number of digits of a text, without what separates its groups. */
export function typedDigits(kind: TypedKind): number {
  return groupsOf(kind) * GROUP_DIGITS;
}

/** The number of groups on the line of `encodeTyped()` that begins with group `first`, from 0. */
export function groupsOfLine(kind: TypedKind, first: number): number {
  return Math.min(GROUPS_PER_LINE, groupsOf(kind) - first);
}

/**
 * Encodes bytes for a person: groups of five digits, seven groups a line. The fifth digit of each group checks the group and its position;
 * bits that are left over check the whole and its kind.
 */
export function encodeTyped(kind: TypedKind, bytes: Uint8Array): string {
  if (bytes.length !== BYTES[kind]) throw new RangeError(`a ${kind} has ${BYTES[kind]} bytes`);
  const value = (bigIntFrom(bytes) << BigInt(spareBits(kind))) | checksumOf(kind, bytes);
  const groups = Array.from({ length: groupsOf(kind) }, (_, index) => {
    const shift = BigInt((groupsOf(kind) - 1 - index) * GROUP_BITS);
    const digits = digitsOf(Number((value >> shift) & BigInt(2 ** GROUP_BITS - 1)));
    return [...digits, checkDigit(index, digits)].map((digit) => ALPHABET[digit]).join('');
  });
  const lines = Math.ceil(groups.length / GROUPS_PER_LINE);
  return Array.from({ length: lines }, (_, line) =>
    groups.slice(line * GROUPS_PER_LINE, (line + 1) * GROUPS_PER_LINE).join('-'),
  ).join('\n');
}

/** Decodes what a person typed: upper or lower case, O for 0, I and L for 1; spaces, line breaks and dashes are ignored. */
export function decodeTyped(kind: TypedKind, text: string): TypedBytes {
  const read = readGroups(text);
  if (read.kind === 'mistyped') return read;
  const { digits } = read;
  if (digits.length !== typedDigits(kind))
    return mistyped(`${digits.length} letters and digits instead of ${typedDigits(kind)}`);
  const value = digits
    .filter((_, index) => index % GROUP_DIGITS !== DATA_DIGITS)
    .reduce((sum, digit) => (sum << BigInt(DIGIT_BITS)) | BigInt(digit), 0n);
  const spare = BigInt(spareBits(kind));
  const bytes = new Uint8Array(
    Buffer.from((value >> spare).toString(16).padStart(2 * BYTES[kind], '0'), 'hex'),
  );
  if ((value & ((1n << spare) - 1n)) !== checksumOf(kind, bytes))
    return mistyped(`the groups together are no ${kind}`);
  return { kind: 'bytes', bytes };
}

/** Checks the groups of a part of a text that begins with group `first`, from 0. The last group may be incomplete. */
export function readGroups(
  text: string,
  first = 0,
):
  | { readonly kind: 'digits'; readonly digits: readonly number[] }
  | { readonly kind: 'mistyped'; readonly why: string } {
  if (text.length > MAX_INPUT_CHARS) return mistyped('too long');
  const digits = [...text.toUpperCase().replaceAll(/[\s-]/g, '')].map((char) =>
    ALPHABET.indexOf(char === 'O' ? '0' : char === 'I' || char === 'L' ? '1' : char),
  );
  for (let at = 0; at < digits.length; at += GROUP_DIGITS) {
    const group = digits.slice(at, at + GROUP_DIGITS);
    const index = first + at / GROUP_DIGITS;
    const isWrong =
      group.includes(-1) ||
      (group.length === GROUP_DIGITS && checkDigit(index, group.slice(0, DATA_DIGITS)) !== group.at(-1));
    if (isWrong) return mistyped(`group ${index + 1} is mistyped`);
  }
  return { kind: 'digits', digits };
}

function mistyped(why: string): { readonly kind: 'mistyped'; readonly why: string } {
  return { kind: 'mistyped', why };
}

function groupsOf(kind: TypedKind): number {
  return Math.ceil((BYTES[kind] * 8) / GROUP_BITS);
}

function spareBits(kind: TypedKind): number {
  return groupsOf(kind) * GROUP_BITS - BYTES[kind] * 8;
}

function digitsOf(group: number): readonly number[] {
  return Array.from(
    { length: DATA_DIGITS },
    (_, at) => (group >> ((DATA_DIGITS - 1 - at) * DIGIT_BITS)) & 31,
  );
}

/**
 * A polynomial over GF(32) in which each digit, and the position of the group, has a weight of its own. It finds every wrong digit, two
 * digits that are exchanged, and a group at the place of another one.
 */
function checkDigit(index: number, digits: readonly number[]): number {
  return doubled(digits.reduce((sum, digit) => doubled(sum) ^ digit, index));
}

function doubled(digit: number): number {
  return (digit << 1) ^ ((digit & 16) === 0 ? 0 : POLYNOMIAL);
}

/** The first bits of a hash, as many as are left over. */
function checksumOf(kind: TypedKind, bytes: Uint8Array): bigint {
  const hash = createHash('sha256').update(`cluster/state-disk/${kind}/v1\0`).update(bytes).digest();
  return BigInt(hash.readUInt32BE() >>> (32 - spareBits(kind)));
}

function bigIntFrom(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
}
