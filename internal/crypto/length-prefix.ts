/**
 * Joins parts, each with its length (u32 big endian) before it. Two different lists of parts never give the same bytes,
 * so all input of signatures and of key derivations is encoded like this. Text is encoded as UTF-8.
 */
export function lengthPrefixed(...parts: readonly (Uint8Array | string)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;
      return [u32(bytes.length), bytes];
    }),
  );
}

/** A signed statement: a label that names its purpose, then the length-prefixed parts. */
export function labeledStatement(label: string, ...parts: readonly (Uint8Array | string)[]): Uint8Array {
  return Buffer.concat([Buffer.from(label, 'utf8'), lengthPrefixed(...parts)]);
}

/** An unsigned 32-bit number, big endian. */
export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** An unsigned 64-bit number, big endian. */
export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}
