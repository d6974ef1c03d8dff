import { createHash, X509Certificate } from 'node:crypto';
import { isSignedByRawEd25519Key } from './ed25519.ts';
import { labeledStatement, u64 } from './length-prefix.ts';

/** The maximum length of a chain of vouchers, in which each owner vouches for the next owner. */
export const MAX_VOUCHERS = 16;

/** The signature with which an owner key vouches for a second key as another owner key. */
export interface OwnerVoucher {
  /** Public key of the signing owner: raw Ed25519, 32 bytes. */
  readonly by: Uint8Array;
  /** Signature over `voucherStatement()`, 64 bytes. */
  readonly signature: Uint8Array;
}

/**
 * The statement that an owner signs to declare that the cluster belongs to that owner. A joining machine verifies the
 * signature with the owner key that the machine was provisioned with. Parts: cluster id, SHA-256 of the cluster CA's
 * DER, epoch (u64 big endian).
 */
export function ownershipStatement(cluster: {
  readonly clusterId: string;
  readonly clusterCaPem: string;
  readonly epoch: bigint;
}): Uint8Array {
  const caDigest = Buffer.from(certificateSha256(cluster.clusterCaPem), 'hex');
  return labeledStatement('cluster/ownership/v1\0', cluster.clusterId, caDigest, u64(cluster.epoch));
}

/**
 * The statement that an owner signs to add a second owner. Machines that know only the first owner's key can then trust
 * the second owner. The signature stays valid when the second owner is removed, so curators also check the current list
 * of owners. Parts: cluster id, the second owner's raw key.
 */
export function voucherStatement(owner: {
  readonly clusterId: string;
  /** Public key of the owner who is added: raw Ed25519, 32 bytes. */
  readonly ownerPubKey: Uint8Array;
}): Uint8Array {
  return labeledStatement('cluster/owner-voucher/v1\0', owner.clusterId, owner.ownerPubKey);
}

/**
 * Whether `ownerPubKey` is a known owner key, or a chain of vouchers leads from a known owner key to it. The owner of
 * each voucher signs the key of the owner of the next voucher; the last voucher signs `ownerPubKey`.
 */
export function isVouchedOwnerKey(
  owner: { readonly ownerPubKey: Uint8Array; readonly vouchers: readonly OwnerVoucher[] },
  by: { readonly clusterId: string; readonly ownerKeys: readonly Uint8Array[] },
): boolean {
  const isKnown = (key: Uint8Array) => by.ownerKeys.some((each) => Buffer.compare(each, key) === 0);
  let key = owner.ownerPubKey;
  for (const voucher of owner.vouchers.slice(-MAX_VOUCHERS).toReversed()) {
    if (isKnown(key)) return true;
    const statement = voucherStatement({ clusterId: by.clusterId, ownerPubKey: key });
    if (!isSignedByRawEd25519Key(voucher.by, statement, voucher.signature)) return false;
    key = voucher.by;
  }
  return isKnown(key);
}

/**
 * The statement that an owner signs to reset a machine. The node id is derived from the machine's key. A reset deletes
 * that key, so the signed request cannot be used a second time. Parts: cluster id, node id.
 */
export function resetStatement(node: { readonly clusterId: string; readonly nodeId: string }): Uint8Array {
  return labeledStatement('cluster/reset/v1\0', node.clusterId, node.nodeId);
}

/**
 * The statement that an owner signs to give the state disk of a node new keys. It names the sealed node share that is replaced, so that the signed request
 * cannot be used for later keys, and a time limit, so that nobody can hold it back. Parts: cluster id, node id, UUID of the disk, SHA-256 of the seal,
 * time limit (Unix ms, u64 big endian), threshold (u64 big endian), recipients in sorted order.
 */
export function diskRotationStatement(rotation: {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly uuid: string;
  /** SHA-256 of the sealed node share. */
  readonly seal: Uint8Array;
  /** Who gets the new recovery key ("age1…"), in any order. */
  readonly recipients: readonly string[];
  /** How many of them must act. */
  readonly threshold: number;
  /** Unix time. */
  readonly expiresMs: bigint;
}): Uint8Array {
  const { clusterId, nodeId, uuid, seal, recipients, threshold, expiresMs } = rotation;
  const numbers = [u64(expiresMs), u64(BigInt(threshold))] as const;
  const parts = [clusterId, nodeId, uuid, seal, ...numbers, ...recipients.toSorted()] as const;
  return labeledStatement('cluster/disk-rotation/v1\0', ...parts);
}

/**
 * The statement that an owner signs to get a client certificate for the Kubernetes API. Parts: cluster id, certificate
 * request.
 */
export function kubeconfigStatement(request: {
  readonly clusterId: string;
  /** PKCS#10, DER. */
  readonly certificateRequest: Uint8Array;
}): Uint8Array {
  return labeledStatement('cluster/kubeconfig/v1\0', request.clusterId, request.certificateRequest);
}

/** The fingerprint of a certificate: SHA-256 of its DER, lower-case hex. Throws when the PEM is not a certificate. */
export function certificateSha256(pem: string): string {
  return createHash('sha256').update(new X509Certificate(pem).raw).digest('hex');
}
