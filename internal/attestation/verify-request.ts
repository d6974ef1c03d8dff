import { createHash } from 'node:crypto';

/** An operator's question to a running node: prove yourself now. */
export interface VerifyRequest {
  readonly clusterId: string;
  readonly nodeId: string;
  /** 32 fresh random bytes of whoever asks. */
  readonly nonce: Uint8Array;
}

export const VERIFY_NONCE_BYTES = 32;

/**
 * What the evidence for `cluster verify` is bound to. Node and asker compute it alike; the node puts its own names in, so
 * that its evidence cannot be passed off as another node's. The label keeps it apart from every session of aTLS.
 */
export function bindingOfVerifyRequest({ clusterId, nodeId, nonce }: VerifyRequest): Uint8Array {
  if (nonce.length !== VERIFY_NONCE_BYTES) throw new RangeError(`a nonce of ${nonce.length} bytes`);
  const hash = createHash('sha512').update('cluster verify evidence v1\0', 'ascii');
  return hash.update(sha256(clusterId)).update(sha256(nodeId)).update(nonce).digest();
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text, 'utf8').digest();
}
