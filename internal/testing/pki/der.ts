/** Writes DER, including invalid DER: every part can be replaced before it is wrapped. */
export function tlv(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const content = Buffer.concat(parts);
  return new Uint8Array(Buffer.concat([Buffer.of(tag), length(content.length), content]));
}

export const sequence = (...parts: readonly Uint8Array[]): Uint8Array => tlv(0x30, ...parts);
export const set = (...parts: readonly Uint8Array[]): Uint8Array => tlv(0x31, ...parts);
export const explicit = (number: number, ...parts: readonly Uint8Array[]): Uint8Array =>
  tlv(0xa0 | number, ...parts);
export const octets = (content: Uint8Array): Uint8Array => tlv(0x04, content);
export const bits = (content: Uint8Array, unused = 0): Uint8Array =>
  tlv(0x03, Uint8Array.of(unused), content);
export const boolean = (value: boolean): Uint8Array => tlv(0x01, Uint8Array.of(value ? 0xff : 0));
export const nothing = (): Uint8Array => tlv(0x05);
export const text = (value: string, tag = 0x0c): Uint8Array => tlv(tag, Buffer.from(value, 'utf8'));

export function integer(value: bigint | number, tag = 0x02): Uint8Array {
  const hex = BigInt(value).toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  return tlv(tag, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
}

export function oid(dotted: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const arcs = [first * 40 + second, ...rest].flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128))
      groups.unshift((left & 0x7f) | 0x80);
    return groups;
  });
  return tlv(0x06, Uint8Array.from(arcs));
}

/** GeneralizedTime from 2050 on, UTCTime before (RFC 5280 §4.1.2.5). */
export function time(ms: number): Uint8Array {
  const digits = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  return digits < '2050' ? text(digits.slice(2), 0x17) : text(digits, 0x18);
}

function length(size: number): Uint8Array {
  if (size < 0x80) return Uint8Array.of(size);
  const hex = size.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  return Buffer.concat([Buffer.of(0x80 | bytes.length), bytes]);
}
