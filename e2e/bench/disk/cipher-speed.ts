import { createCipheriv, randomBytes } from 'node:crypto';

const MIB = 2 ** 20;
const CHUNK_BYTES = 64 * 1024;
const HOST_MS = 500;

/** The line of a shell that measures the cipher of state disks in memory, on one processor of the guest. */
export const CIPHER_COMMAND = 'cryptsetup benchmark --cipher aes-xts-plain64 --key-size 512';

/** The encryption speed in its output, in bytes a second. @throws Error if there is none */
export function parseCipherSpeed(output: string): number {
  const found = /^\s*aes-xts\s+512b\s+([0-9.]+) MiB\/s\s+[0-9.]+ MiB\/s\s*$/m.exec(output)?.[1];
  if (found === undefined || !(Number(found) > 0))
    throw new Error(`cryptsetup measured no cipher: ${output}`);
  return Number(found) * MIB;
}

/** The speed of the same cipher on this machine, in bytes a second. */
export function hostCipherSpeed(): number {
  const chunk = randomBytes(CHUNK_BYTES);
  const key = randomBytes(64);
  const startMs = performance.now();
  let bytes = 0;
  while (performance.now() - startMs < HOST_MS) {
    bytes += createCipheriv('aes-256-xts', key, randomBytes(16)).update(chunk).length;
  }
  return (bytes / (performance.now() - startMs)) * 1000;
}
