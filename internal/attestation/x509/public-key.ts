import { createPublicKey, type KeyObject } from 'node:crypto';
import {
  parseBitString,
  parseInteger,
  parseNull,
  parseOid,
  readOnly,
  TAG,
  type DerReader,
} from '../asn1/index.ts';
import { X509Error } from './errors.ts';

/** Accepted kinds of keys. */
export type PublicKeyKind = 'rsa' | 'p256' | 'p384' | 'ed25519';

/** A parsed public key. */
export interface PublicKey {
  readonly kind: PublicKeyKind;
  /** The SubjectPublicKeyInfo as it was signed. */
  readonly spkiDer: Uint8Array;
  readonly key: KeyObject;
}

const OID = {
  rsa: '1.2.840.113549.1.1.1',
  ec: '1.2.840.10045.2.1',
  p256: '1.2.840.10045.3.1.7',
  p384: '1.3.132.0.34',
  ed25519: '1.3.101.112',
} as const;

const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192;

/**
 * Parses a SubjectPublicKeyInfo. The strict DER reader checks its structure; node:crypto parses the key and checks that a point
 * is on its curve. Throws X509Error and Asn1Error.
 */
export function parsePublicKey(spkiDer: Uint8Array): PublicKey {
  const kind = readOnly(spkiDer, TAG.sequence, parseKind);
  try {
    const key = createPublicKey({ key: Buffer.from(spkiDer), format: 'der', type: 'spki' });
    return { kind, spkiDer, key };
  } catch (cause) {
    throw new X509Error('x509-malformed', `reading a public key of kind ${kind}: not a key`, { cause });
  }
}

function parseKind(spki: DerReader): PublicKeyKind {
  const kind = spki.sequence((algorithm) => {
    const oid = parseOid(algorithm.read(TAG.oid));
    switch (oid) {
      case OID.rsa:
        parseNull(algorithm.read(TAG.null));
        return 'rsa';
      case OID.ec:
        return parseCurve(parseOid(algorithm.read(TAG.oid)));
      case OID.ed25519:
        return 'ed25519';
      default:
        throw new X509Error(
          'x509-algorithm-unsupported',
          `reading a public key: algorithm ${oid} is not accepted`,
        );
    }
  });
  const { bytes, unusedBits } = parseBitString(spki.read(TAG.bitString));
  if (unusedBits !== 0)
    throw new X509Error('x509-malformed', 'reading a public key: its bits are not whole bytes');
  checkSize(kind, bytes);
  return kind;
}

function parseCurve(oid: string): PublicKeyKind {
  if (oid === OID.p256) return 'p256';
  if (oid === OID.p384) return 'p384';
  throw new X509Error('x509-algorithm-unsupported', `reading a public key: curve ${oid} is not accepted`);
}

function checkSize(kind: PublicKeyKind, bytes: Uint8Array): void {
  if (kind === 'rsa') return checkRsa(bytes);
  const wanted = { p256: 65, p384: 97, ed25519: 32 }[kind];
  // Only an uncompressed point: a compressed one would be a second encoding of the same key.
  if (bytes.length !== wanted || (kind !== 'ed25519' && bytes[0] !== 0x04)) {
    throw new X509Error(
      'x509-malformed',
      `reading a public key of kind ${kind}: ${bytes.length} bytes in an unexpected form`,
    );
  }
}

function checkRsa(bytes: Uint8Array): void {
  const { modulus, exponent } = readOnly(bytes, TAG.sequence, (key) => ({
    modulus: parseInteger(key.read(TAG.integer)),
    exponent: parseInteger(key.read(TAG.integer)),
  }));
  const bits = modulus > 0n ? modulus.toString(2).length : 0;
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS || exponent !== 65537n) {
    throw new X509Error(
      'x509-algorithm-unsupported',
      `reading an RSA key: ${bits} bits, exponent ${exponent}`,
    );
  }
}
