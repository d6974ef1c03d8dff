import { hkdfSync } from 'node:crypto';
import { Secret } from '../secret/index.ts';

/** The length of each share, of a key of a slot, and of the recovery key. */
export const SHARE_BYTES = 32;
const OPENING = 'cluster/state-disk/key/v1';
const AUTHENTICATING = 'cluster/state-disk/record/v1';

/** Two random values of 32 bytes. Both are needed to open the disk, and neither reveals anything about the other. */
export interface DiskShares {
  /** Sealed to the TPM of the machine. */
  readonly node: Secret<Uint8Array>;
  /** The share whose release the cluster can influence (docs/decisions/state-disk.md). */
  readonly cluster: Secret<Uint8Array>;
}

/** The key of the first slot: HKDF-SHA-256 (RFC 5869) of both shares, for one disk. */
export function slotKey({ node, cluster }: DiskShares, uuid: string): Secret<Uint8Array> {
  const shares = Buffer.concat([checked(node), checked(cluster)]);
  return new Secret(new Uint8Array(hkdfSync('sha256', shares, uuid, OPENING, SHARE_BYTES)));
}

/**
 * The key of the MAC over a record. It is derived from the node share alone, so that a record is verified before the
 * cluster share is unsealed.
 */
export function recordKey(node: Secret<Uint8Array>, uuid: string): Secret<Uint8Array> {
  return new Secret(new Uint8Array(hkdfSync('sha256', checked(node), uuid, AUTHENTICATING, SHARE_BYTES)));
}

/**
 * The length is checked because two pairs of shares with other lengths could have the same bytes when they are joined.
 */
function checked(share: Secret<Uint8Array>): Uint8Array {
  const bytes = share.reveal();
  if (bytes.length !== SHARE_BYTES)
    throw new RangeError(`a share has ${SHARE_BYTES} bytes, not ${bytes.length}`);
  return bytes;
}
