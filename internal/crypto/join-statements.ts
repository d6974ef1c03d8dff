import { createPublicKey, verify } from 'node:crypto';

const ED25519_SPKI_BYTES = 44;

/** What a machine signs with its own key inside a session of attested TLS: that it holds the key, here and now. */
export function machineKeyStatement(session: Uint8Array): Uint8Array {
  return statement('cluster/join/key/v1\0', session);
}

/** What the join service signs with its node's key: that this session ends at a node of the cluster it names. */
export function joinServerStatement(session: Uint8Array): Uint8Array {
  return statement('cluster/join/server/v1\0', session);
}

/**
 * What an owner signs to have a certificate for the Kubernetes API. Label, then cluster id and certificate request, each
 * with its length (u32 big endian) before it.
 */
export function kubeconfigStatement(asked: {
  readonly clusterId: string;
  readonly certificateRequest: Uint8Array;
}): Uint8Array {
  const parts = [Buffer.from(asked.clusterId, 'utf8'), asked.certificateRequest].flatMap(withLength);
  return Buffer.concat([Buffer.from('cluster/kubeconfig/v1\0', 'utf8'), ...parts]);
}

/**
 * Whether an Ed25519 key made a signature.
 * @param pubKeyDer SubjectPublicKeyInfo, from a stranger: false for every other kind of key
 */
export function isSignedByEd25519Key(
  pubKeyDer: Uint8Array,
  signed: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (pubKeyDer.length !== ED25519_SPKI_BYTES || signature.length !== 64) return false;
  try {
    const key = createPublicKey({ key: Buffer.from(pubKeyDer), format: 'der', type: 'spki' });
    return key.asymmetricKeyType === 'ed25519' && verify(undefined, signed, key, signature);
  } catch {
    return false; // no key at all
  }
}

function withLength(part: Uint8Array): readonly Uint8Array[] {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(part.length);
  return [length, part];
}

function statement(label: string, session: Uint8Array): Uint8Array {
  if (session.length !== 64) throw new RangeError(`a session has 64 bytes, not ${session.length}`);
  return Buffer.concat([Buffer.from(label, 'utf8'), session]);
}
