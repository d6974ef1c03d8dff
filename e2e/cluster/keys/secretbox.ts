/**
 * NaCl secretbox (XSalsa20 and Poly1305), written from its specifications: Bernstein, "Extending the Salsa20 nonce" and "The
 * Poly1305-AES message-authentication code". Stories open values of Kubernetes' etcd with a stolen key, as an attacker would,
 * without any code of the product or of Kubernetes.
 */
const SIGMA = new TextEncoder().encode('expand 32-byte k');
const NONCE_BYTES = 24;
const TAG_BYTES = 16;
const PRIME = (1n << 130n) - 5n;
const CLAMP = 0x0ffffffc0ffffffc0ffffffc0fffffffn;

/** Opens `nonce || tag || ciphertext`; undefined if it was sealed with another key. */
export function openSecretbox(key: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const ciphertext = sealed.subarray(NONCE_BYTES + TAG_BYTES);
  const subkey = hsalsa20(key, nonce.subarray(0, 16));
  const stream = salsa20(subkey, nonce.subarray(16), 32 + ciphertext.length);
  if (poly1305(stream.subarray(0, 32), ciphertext) !== littleEndian(tag)) return undefined;
  return ciphertext.map((byte, index) => byte ^ (stream[32 + index] ?? 0));
}

function rounds(state: Uint32Array): Uint32Array {
  const x = state.slice();
  const mix = (to: number, a: number, b: number, by: number): void => {
    const sum = ((x[a] ?? 0) + (x[b] ?? 0)) >>> 0;
    x[to] = (x[to] ?? 0) ^ ((sum << by) | (sum >>> (32 - by)));
  };
  const quarter = (a: number, b: number, c: number, d: number): void => {
    mix(b, a, d, 7);
    mix(c, b, a, 9);
    mix(d, c, b, 13);
    mix(a, d, c, 18);
  };
  for (let round = 0; round < 10; round++) {
    for (const [a, b, c, d] of [
      [0, 4, 8, 12],
      [5, 9, 13, 1],
      [10, 14, 2, 6],
      [15, 3, 7, 11],
    ] as const)
      quarter(a, b, c, d);
    for (const [a, b, c, d] of [
      [0, 1, 2, 3],
      [5, 6, 7, 4],
      [10, 11, 8, 9],
      [15, 12, 13, 14],
    ] as const)
      quarter(a, b, c, d);
  }
  return x;
}

/** The matrix of Salsa20: constants on the diagonal, the key around them, 16 bytes of input in the middle. */
function matrix(key: Uint8Array, input: Uint8Array): Uint32Array {
  const word = (bytes: Uint8Array, at: number): number =>
    new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(at, true);
  const state = new Uint32Array(16);
  for (let index = 0; index < 4; index++) {
    state[index * 5] = word(SIGMA, index * 4);
    state[1 + index] = word(key, index * 4);
    state[11 + index] = word(key, 16 + index * 4);
    state[6 + index] = word(input, index * 4);
  }
  return state;
}

function hsalsa20(key: Uint8Array, input: Uint8Array): Uint8Array {
  const x = rounds(matrix(key, input));
  const out = new DataView(new ArrayBuffer(32));
  for (const [index, at] of [0, 5, 10, 15, 6, 7, 8, 9].entries()) out.setUint32(index * 4, x[at] ?? 0, true);
  return new Uint8Array(out.buffer);
}

function salsa20(key: Uint8Array, nonce: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(Math.ceil(length / 64) * 64);
  const view = new DataView(out.buffer);
  const input = new Uint8Array(16);
  input.set(nonce);
  for (let block = 0; block * 64 < length; block++) {
    new DataView(input.buffer).setUint32(8, block, true);
    const state = matrix(key, input);
    const x = rounds(state);
    for (let index = 0; index < 16; index++)
      view.setUint32(block * 64 + index * 4, ((x[index] ?? 0) + (state[index] ?? 0)) >>> 0, true);
  }
  return out.subarray(0, length);
}

function poly1305(key: Uint8Array, message: Uint8Array): bigint {
  const r = littleEndian(key.subarray(0, 16)) & CLAMP;
  let sum = 0n;
  for (let at = 0; at < message.length; at += 16) {
    const block = message.subarray(at, at + 16);
    sum = ((sum + littleEndian(block) + (1n << BigInt(block.length * 8))) * r) % PRIME;
  }
  return (sum + littleEndian(key.subarray(16, 32))) & ((1n << 128n) - 1n);
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes.toReversed()).toString('hex') || '0'}`);
}
