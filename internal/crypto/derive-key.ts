import { hkdfSync } from 'node:crypto';
import { Secret } from '../secret/index.ts';

/** What the owner keeps: everything else that is secret about a cluster can be derived from it. */
export interface MasterSecret {
  /** 32 bytes. */
  readonly key: Secret<Uint8Array>;
  /** 32 bytes; not secret. */
  readonly salt: Uint8Array;
}

/**
 * What a derived key is for. A closed union and not a string: no caller can name its way into the context of another,
 * and free parts (like a disk's UUID) are fields with a length of their own in the encoding.
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
 * HKDF-SHA-256 (RFC 5869) of the master secret.
 * @throws RangeError when the lengths are not ours or a free part has another shape: misuse
 */
export function deriveKey(secret: MasterSecret, context: KeyContext, sizeBytes: number): Secret<Uint8Array> {
  if (secret.key.reveal().length !== 32 || secret.salt.length !== 32)
    throw new RangeError('a master secret has 32 bytes and a salt of 32');
  if (sizeBytes < 16 || sizeBytes > 64) throw new RangeError(`a derived key of ${sizeBytes} bytes`);
  const key = hkdfSync(
    'sha256',
    secret.key.reveal(),
    secret.salt,
    encodeContext(context, sizeBytes),
    sizeBytes,
  );
  return new Secret(new Uint8Array(key));
}

/** Label, length of the key and every part with its length before it: two contexts never share an encoding. */
function encodeContext(context: KeyContext, sizeBytes: number): Uint8Array {
  const parts = [LABEL, context.kind, String(sizeBytes), ...freeParts(context)];
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part, 'utf8');
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

function freeParts(context: KeyContext): readonly string[] {
  switch (context.kind) {
    case 'disk':
      if (!UUID.test(context.uuid)) throw new RangeError('a disk is named by its UUID in lower case');
      return [context.uuid];
    case 'cluster-id':
    case 'cluster-unlock':
    case 'init-id':
    case 'kubernetes-admin':
    case 'measurement':
      return [];
  }
}
