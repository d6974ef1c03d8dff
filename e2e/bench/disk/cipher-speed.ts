import { createCipheriv, randomBytes } from 'node:crypto';
import { CIPHER_ARGUMENTS, PLAIN_CIPHER } from '../../../internal/luks/index.ts';

const MIB = 2 ** 20;
const CHUNK_BYTES = 64 * 1024;
const HOST_MS = 500;
const IV_BYTES = 16;

/** The line of a shell that measures the cipher of state disks in memory, on one processor of the guest. */
export const CIPHER_COMMAND = `cryptsetup benchmark ${CIPHER_ARGUMENTS.join(' ')}`;
const [ALGORITHM = '', MODE = ''] = PLAIN_CIPHER.encryption.split('-');
const KEY_BITS = PLAIN_CIPHER.keyBytes * 8;
/** The name of the same cipher in OpenSSL. XTS has two keys, of which the name counts one. */
export const HOST_CIPHER = `${ALGORITHM}-${MODE === 'xts' ? KEY_BITS / 2 : KEY_BITS}-${MODE}`;

/** The encryption speed in its output, in bytes a second. @throws Error if there is none */
export function parseCipherSpeed(output: string): number {
  const row = `^\\s*${ALGORITHM}-${MODE}\\s+${KEY_BITS}b\\s+([0-9.]+) MiB/s\\s+[0-9.]+ MiB/s\\s*$`;
  const found = new RegExp(row, 'm').exec(output)?.[1];
  if (found === undefined || !(Number(found) > 0))
    throw new Error(`cryptsetup measured no cipher: ${output}`);
  return Number(found) * MIB;
}

/** The speed of the same cipher on this machine, in bytes a second. @throws Error if OpenSSL does not have it */
export function hostCipherSpeed(): number {
  const chunk = randomBytes(CHUNK_BYTES);
  const key = randomBytes(PLAIN_CIPHER.keyBytes);
  const startMs = performance.now();
  let bytes = 0;
  while (performance.now() - startMs < HOST_MS) {
    bytes += createCipheriv(HOST_CIPHER, key, randomBytes(IV_BYTES)).update(chunk).length;
  }
  return (bytes / (performance.now() - startMs)) * 1000;
}
