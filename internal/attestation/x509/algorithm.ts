import { contextTag, parseNull, parseOid, parseSmallInteger, TAG, type DerReader } from '../asn1/index.ts';
import { X509Error } from './errors.ts';

/** Accepted hash algorithms. */
export type HashName = 'sha256' | 'sha384' | 'sha512';

/** Accepted signature algorithms of certificates and CRLs. SHA-1 and RSA-PSS with unequal hashes are not accepted. */
export type SignatureAlgorithm =
  | { readonly kind: 'rsa-pkcs1' | 'ecdsa'; readonly hash: HashName }
  | { readonly kind: 'rsa-pss'; readonly hash: HashName; readonly saltBytes: number }
  | { readonly kind: 'ed25519' };

const RSA_PSS = '1.2.840.113549.1.1.10';
const MGF1 = '1.2.840.113549.1.1.8';

/** RFC 4055, RFC 5758, RFC 8410. The parameters are NULL for RSA and absent for the others. */
const SIMPLE: Readonly<Record<string, SignatureAlgorithm>> = {
  '1.2.840.113549.1.1.11': { kind: 'rsa-pkcs1', hash: 'sha256' },
  '1.2.840.113549.1.1.12': { kind: 'rsa-pkcs1', hash: 'sha384' },
  '1.2.840.113549.1.1.13': { kind: 'rsa-pkcs1', hash: 'sha512' },
  '1.2.840.10045.4.3.2': { kind: 'ecdsa', hash: 'sha256' },
  '1.2.840.10045.4.3.3': { kind: 'ecdsa', hash: 'sha384' },
  '1.2.840.10045.4.3.4': { kind: 'ecdsa', hash: 'sha512' },
  '1.3.101.112': { kind: 'ed25519' },
};

const HASHES: Readonly<Record<string, { readonly name: HashName; readonly bytes: number }>> = {
  '2.16.840.1.101.3.4.2.1': { name: 'sha256', bytes: 32 },
  '2.16.840.1.101.3.4.2.2': { name: 'sha384', bytes: 48 },
  '2.16.840.1.101.3.4.2.3': { name: 'sha512', bytes: 64 },
};

/** Reads the AlgorithmIdentifier of a signature. Throws X509Error `x509-algorithm-unsupported`. */
export function parseSignatureAlgorithm(reader: DerReader): SignatureAlgorithm {
  return reader.sequence((identifier) => {
    const oid = parseOid(identifier.read(TAG.oid));
    if (oid === RSA_PSS) return parsePssParameters(identifier);
    const algorithm = SIMPLE[oid];
    if (algorithm === undefined) throw unsupported(`signature algorithm ${oid}`);
    if (algorithm.kind === 'rsa-pkcs1') parseNull(identifier.read(TAG.null));
    return algorithm;
  });
}

/** RFC 4055 §3.1. The defaults mean SHA-1, so that hash, mask and salt must be explicit. */
function parsePssParameters(identifier: DerReader): SignatureAlgorithm {
  return identifier.sequence((parameters) => {
    const hash = parameters.inside(contextTag(0, 'constructed'), parseHash);
    const mask = parameters.inside(contextTag(1, 'constructed'), (tagged) =>
      tagged.sequence((mgf) => {
        const oid = parseOid(mgf.read(TAG.oid));
        if (oid !== MGF1) throw unsupported(`mask generation ${oid}`);
        return parseHash(mgf);
      }),
    );
    const saltBytes = parameters.inside(contextTag(2, 'constructed'), (tagged) =>
      parseSmallInteger(tagged.read(TAG.integer), 512),
    );
    // AMD writes the default trailer (1) explicitly, which DER forbids; other values are not defined.
    parameters.insideOptional(contextTag(3, 'constructed'), (tagged) => {
      if (parseSmallInteger(tagged.read(TAG.integer), 255) !== 1) throw unsupported('RSA-PSS trailer');
    });
    if (mask.name !== hash.name || saltBytes !== hash.bytes)
      throw unsupported('RSA-PSS with unequal hashes or salt');
    return { kind: 'rsa-pss', hash: hash.name, saltBytes };
  });
}

function parseHash(reader: DerReader): { readonly name: HashName; readonly bytes: number } {
  return reader.sequence((identifier) => {
    const oid = parseOid(identifier.read(TAG.oid));
    const hash = HASHES[oid];
    if (hash === undefined) throw unsupported(`hash ${oid}`);
    if (!identifier.done) parseNull(identifier.read(TAG.null)); // NULL or absent: RFC 4055 §2.1 allows both
    return hash;
  });
}

function unsupported(what: string): X509Error {
  return new X509Error(
    'x509-algorithm-unsupported',
    `reading a signature algorithm: ${what} is not accepted`,
  );
}
