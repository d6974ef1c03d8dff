import { createHash } from 'node:crypto';
import { BundleError } from './errors.ts';

/** A SHA-256 in lower-case hex. */
export const SHA256_HEX = /^[0-9a-f]{64}$/;

/** SHA-256 (lower-case hex) and length of a stream. */
export interface Digest {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** Hashes a stream in one pass. */
export async function digestOf(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Digest> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  return { sha256: hash.digest('hex'), sizeBytes };
}

/** Accepts only 64 hex digits as a file name: another text could be a path outside of the store. */
export function checkDigest(sha256: string): string {
  if (!SHA256_HEX.test(sha256)) {
    throw new BundleError('bundle-manifest-invalid', `${JSON.stringify(sha256)} is not a SHA-256`);
  }
  return sha256;
}
