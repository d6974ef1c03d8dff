import { createHash } from 'node:crypto';

/** An operator's request that a running node attest itself (`cluster verify`). */
export interface VerifyRequest {
  readonly clusterId: string;
  readonly nodeId: string;
  /** 32 random bytes of the requester. */
  readonly nonce: Uint8Array;
}

/** Size of the nonce. */
export const VERIFY_NONCE_BYTES = 32;

/**
 * The binding of the evidence for `cluster verify`, which node and requester compute independently. The node uses its own
 * ids, so that its evidence cannot be used for another node. The label keeps the binding apart from all aTLS sessions.
 */
export function bindingOfVerifyRequest({ clusterId, nodeId, nonce }: VerifyRequest): Uint8Array {
  if (nonce.length !== VERIFY_NONCE_BYTES)
    throw new RangeError(`a nonce has ${VERIFY_NONCE_BYTES} bytes, not ${nonce.length}`);
  const hash = createHash('sha512').update('cluster verify evidence v1\0', 'ascii');
  return hash.update(sha256(clusterId)).update(sha256(nodeId)).update(nonce).digest();
}

/**
 * The binding of the evidence with which a node says how its state disk is sealed: nobody between it and the requester can change what
 * the requester then approves. The label keeps it apart from evidence for `cluster verify`, whose nonce a curator could choose.
 * @param seal the bytes of the node's description
 */
export function bindingOfDiskSeal({ clusterId, nodeId, nonce }: VerifyRequest, seal: Uint8Array): Uint8Array {
  if (nonce.length !== VERIFY_NONCE_BYTES)
    throw new RangeError(`a nonce has ${VERIFY_NONCE_BYTES} bytes, not ${nonce.length}`);
  const hash = createHash('sha512').update('cluster state disk evidence v1\0', 'ascii');
  return hash.update(sha256(clusterId)).update(sha256(nodeId)).update(nonce).update(sha256(seal)).digest();
}

function sha256(text: string | Uint8Array): Uint8Array {
  return createHash('sha256').update(text).digest();
}
