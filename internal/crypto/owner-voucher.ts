const LABEL = 'cluster/owner-voucher/v1\0';

/** By a key that is an owner's: the next one is an owner's too. */
export interface OwnerVoucher {
  /** Raw Ed25519. */
  readonly by: Uint8Array;
  readonly signature: Uint8Array;
}

/**
 * What an owner signs who makes somebody else an owner of a cluster, for machines that know the first one's key only: label,
 * then cluster id and the other one's raw key, each with its length (u32 big endian) before it. It says nothing of who is
 * an owner later: whoever was removed is refused by curators.
 */
export function voucherStatement(owner: {
  readonly clusterId: string;
  /** Raw Ed25519. */
  readonly ownerPubKey: Uint8Array;
}): Uint8Array {
  const parts = [Buffer.from(owner.clusterId, 'utf8'), owner.ownerPubKey].flatMap((part) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    return [length, part];
  });
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), ...parts]);
}
