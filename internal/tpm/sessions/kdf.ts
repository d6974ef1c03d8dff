import { createHmac } from 'node:crypto';
import { digestOf, type HashName } from '../algorithms.ts';
import { WireWriter } from '../wire.ts';

/** Inputs of `kdfA()`. */
export interface KdfA {
  readonly hash: HashName;
  readonly key: Uint8Array;
  readonly label: string;
  readonly contextU?: Uint8Array;
  readonly contextV?: Uint8Array;
  readonly bits: number;
}

const EMPTY = new Uint8Array();

/** KDFa (Part 1, 11.4.10.2): SP 800-108 in counter mode with HMAC, one block. Throws RangeError for more than one. */
export function kdfA({ hash, key, label, contextU = EMPTY, contextV = EMPTY, bits }: KdfA): Uint8Array {
  const hmac = createHmac(hash, key).update(uint32(1)).update(`${label}\0`, 'ascii');
  const block = hmac.update(contextU).update(contextV).update(uint32(bits)).digest();
  if (bits > block.length * 8) throw new RangeError(`one block of ${hash} has fewer than ${bits} bits`);
  return new Uint8Array(block.subarray(0, bits / 8));
}

/** KDFe (Part 1, 11.4.10.3): SP 800-56A, one block, as long as the hash. */
export function kdfE(options: {
  readonly hash: HashName;
  /** The x coordinate of the ECDH point. */
  readonly shared: Uint8Array;
  readonly label: string;
  /** x coordinates of the ephemeral and of the static public key. */
  readonly partyU: Uint8Array;
  readonly partyV: Uint8Array;
}): Uint8Array {
  const { hash, shared, label, partyU, partyV } = options;
  return digestOf(hash, uint32(1), shared, Buffer.from(`${label}\0`, 'ascii'), partyU, partyV);
}

function uint32(value: number): Uint8Array {
  return new WireWriter().u32(value).finish();
}
