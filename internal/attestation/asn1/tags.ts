/** Identifier octets (X.690 §8.1.2): class, constructed bit and number in one byte. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utf8String: 0x0c,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const;

/** A context-specific tag `[number]`: constructed when it holds elements, primitive when it replaces a simple type. */
export function contextTag(number: number, form: 'constructed' | 'primitive'): number {
  return (form === 'constructed' ? 0xa0 : 0x80) | number;
}
