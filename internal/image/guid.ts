/** The bytes of a GUID: the first three fields are little-endian (UEFI, appendix A). */
export function guidBytes(text: string): Uint8Array {
  const [a = '', b = '', c = '', d = '', e = ''] = text.split('-');
  const flipped = [a, b, c].map((part) => Buffer.from(part, 'hex').reverse());
  return Buffer.concat([...flipped, Buffer.from(d + e, 'hex')]);
}

/** A GUID that follows from 16 bytes of a hash, marked as version 8 (RFC 9562 §5.8). */
export function guidOf(digest: Uint8Array): string {
  const bytes = Buffer.from(digest.subarray(0, 16));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
