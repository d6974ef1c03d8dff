import { hkdfSync } from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { lengthPrefixed } from './length-prefix.ts';

/** The secret that the owner keeps. The other secrets of a cluster can be derived from it. */
export interface MasterSecret {
  /** 32 bytes. */
  readonly key: Secret<Uint8Array>;
  /** 32 bytes, the salt of HKDF; not secret. */
  readonly salt: Uint8Array;
}

/**
 * The purpose of a derived key. A closed union instead of a string, so that no input can produce the context of another
 * purpose: variable parts, such as the UUID of a disk, are fields, which are encoded with their length.
 */
export type KeyContext =
  | { readonly kind: 'cluster-id' }
  | { readonly kind: 'cluster-unlock' }
  | { readonly kind: 'init-id' }
  | { readonly kind: 'kubernetes-admin' }
  | { readonly kind: 'measurement' }
  | { readonly kind: 'disk'; readonly uuid: string };

const LABEL = 'cluster/derived-key/v1';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Derives a key from the master secret with HKDF-SHA-256 (RFC 5869).
 * @param sizeBytes 16 to 64
 * @throws RangeError for a wrong length or a malformed UUID: a bug of the caller
 */
export function deriveKey(secret: MasterSecret, context: KeyContext, sizeBytes: number): Secret<Uint8Array> {
  if (secret.key.reveal().length !== 32 || secret.salt.length !== 32)
    throw new RangeError('a master secret has a key of 32 bytes and a salt of 32 bytes');
  if (sizeBytes < 16 || sizeBytes > 64)
    throw new RangeError(`a derived key has 16 to 64 bytes, not ${sizeBytes}`);
  const key = hkdfSync(
    'sha256',
    secret.key.reveal(),
    secret.salt,
    encodeContext(context, sizeBytes),
    sizeBytes,
  );
  return new Secret(new Uint8Array(key));
}

/** The key length is part of the context, so that a shorter key is not a prefix of a longer one. */
function encodeContext(context: KeyContext, sizeBytes: number): Uint8Array {
  return lengthPrefixed(LABEL, context.kind, String(sizeBytes), ...variableParts(context));
}

function variableParts(context: KeyContext): readonly string[] {
  switch (context.kind) {
    case 'disk':
      if (!UUID.test(context.uuid))
        throw new RangeError(
          `a disk UUID must have lower-case hex digits only: ${JSON.stringify(context.uuid)}`,
        );
      return [context.uuid];
    case 'cluster-id':
    case 'cluster-unlock':
    case 'init-id':
    case 'kubernetes-admin':
    case 'measurement':
      return [];
  }
}
