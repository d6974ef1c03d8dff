import { createPublicKey, type KeyObject } from 'node:crypto';
import {
  ALG,
  CURVES,
  curveName,
  digestOf,
  hashId,
  hashName,
  type CurveName,
  type HashName,
} from '../algorithms.ts';
import { malformed } from '../errors.ts';
import { hex, WireReader, WireWriter } from '../wire.ts';

/** Bits of TPMA_OBJECT (Part 2, 8.3). */
export const OBJECT_ATTRIBUTE = {
  fixedTpm: 1 << 1,
  stClear: 1 << 2,
  fixedParent: 1 << 4,
  sensitiveDataOrigin: 1 << 5,
  userWithAuth: 1 << 6,
  adminWithPolicy: 1 << 7,
  noDa: 1 << 10,
  encryptedDuplication: 1 << 11,
  restricted: 1 << 16,
  decrypt: 1 << 17,
  sign: 1 << 18,
  x509Sign: 1 << 19,
} as const;

/** Name of an object attribute. */
export type ObjectAttribute = keyof typeof OBJECT_ATTRIBUTE;

const KNOWN_ATTRIBUTES = Object.values(OBJECT_ATTRIBUTE).reduce((all, bit) => all | bit, 0);

/** The symmetric cipher with which a restricted decryption key protects its child objects and credentials. */
export interface SymmetricCipher {
  readonly keyBits: 128 | 192 | 256;
}

/** The fixed signature scheme of a key. */
export interface SignatureScheme {
  readonly algorithm: 'ecdsa' | 'rsassa' | 'rsapss';
  readonly hash: HashName;
}

/** The public key in a public area. */
export type TpmKey =
  | { readonly kind: 'ecc'; readonly curve: CurveName; readonly x: Uint8Array; readonly y: Uint8Array }
  | { readonly kind: 'rsa'; readonly bits: number; readonly exponent: number; readonly modulus: Uint8Array };

/** TPMT_PUBLIC of an asymmetric key. */
export interface TpmPublic {
  /** The encoded structure; the Name is a hash over it. */
  readonly bytes: Uint8Array;
  readonly nameHash: HashName;
  readonly attributes: number;
  readonly authPolicy: Uint8Array;
  readonly symmetric: SymmetricCipher | undefined;
  readonly scheme: SignatureScheme | undefined;
  readonly key: TpmKey;
}

/** Size limit of a public area. */
export const MAX_PUBLIC_BYTES = 1024;

/** Parses one TPMT_PUBLIC of an RSA or ECC key, without trailing bytes. Throws only TpmError `tpm-malformed`. */
export function parsePublic(bytes: Uint8Array): TpmPublic {
  if (bytes.length > MAX_PUBLIC_BYTES) throw malformed(`a public area of ${bytes.length} bytes`);
  const reader = new WireReader(bytes, 'a public area');
  const type = reader.u16('type');
  const nameHash = hashName(reader.u16('nameAlg'), 'nameAlg');
  const attributes = reader.u32('attributes');
  if ((attributes & ~KNOWN_ATTRIBUTES) !== 0)
    throw reader.fail('attributes', 'no reserved bit', hex(attributes));
  const authPolicy = reader.sized('authPolicy', 64);
  const symmetric = readSymmetric(reader);
  const scheme = readScheme(reader, type);
  const key = readKey(reader, type);
  reader.end();
  return { bytes: bytes.slice(), nameHash, attributes, authPolicy, symmetric, scheme, key };
}

/** The Name by which a TPM identifies an object: hash algorithm, then hash of its public area (Part 1, 16). */
export function nameOf(publicArea: Pick<TpmPublic, 'bytes' | 'nameHash'>): Uint8Array {
  return new WireWriter()
    .u16(hashId(publicArea.nameHash))
    .bytes(digestOf(publicArea.nameHash, publicArea.bytes))
    .finish();
}

/** The Qualified Name of a primary key: its Name hashed with the handle of its hierarchy (Part 1, 16). */
export function qualifiedNameOf(
  publicArea: Pick<TpmPublic, 'bytes' | 'nameHash'>,
  hierarchy: number,
): Uint8Array {
  const parent = new WireWriter().u32(hierarchy).bytes(nameOf(publicArea)).finish();
  return new WireWriter()
    .u16(hashId(publicArea.nameHash))
    .bytes(digestOf(publicArea.nameHash, parent))
    .finish();
}

/** Whether all of these attributes are set. */
export function hasAttributes(
  publicArea: Pick<TpmPublic, 'attributes'>,
  wanted: readonly ObjectAttribute[],
): boolean {
  return wanted.every((name) => (publicArea.attributes & OBJECT_ATTRIBUTE[name]) !== 0);
}

/** The key for node:crypto. Throws TpmError `tpm-malformed`, also for a point that is not on the curve. */
export function keyObjectOf(key: TpmKey): KeyObject {
  try {
    return createPublicKey({ format: 'jwk', key: jwkOf(key) });
  } catch (error) {
    throw malformed(`a public key: ${error instanceof Error ? error.message : 'unusable'}`);
  }
}

function jwkOf(key: TpmKey) {
  const encode = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');
  if (key.kind === 'ecc') {
    return { kty: 'EC', crv: key.curve === 'p256' ? 'P-256' : 'P-384', x: encode(key.x), y: encode(key.y) };
  }
  const exponent = new WireWriter().u32(key.exponent).finish();
  return {
    kty: 'RSA',
    n: encode(key.modulus),
    e: encode(exponent.subarray(exponent.findIndex((b) => b !== 0))),
  };
}

/** Reads TPMT_SYM_DEF_OBJECT: none, or AES in CFB mode. */
function readSymmetric(reader: WireReader): SymmetricCipher | undefined {
  const algorithm = reader.u16('symmetric algorithm');
  if (algorithm === ALG.null) return undefined;
  reader.expect(algorithm, ALG.aes, 'symmetric algorithm');
  const keyBits = reader.u16('symmetric key bits');
  if (keyBits !== 128 && keyBits !== 192 && keyBits !== 256) {
    throw reader.fail('symmetric key bits', '128, 192 or 256', `${keyBits}`);
  }
  reader.expect(reader.u16('symmetric mode'), ALG.cfb, 'symmetric mode');
  return { keyBits };
}

function readScheme(reader: WireReader, type: number): SignatureScheme | undefined {
  const id = reader.u16('scheme');
  if (id === ALG.null) return undefined;
  const hash = hashName(reader.u16('scheme hash'), 'scheme hash');
  if (type === ALG.ecc && id === ALG.ecdsa) return { algorithm: 'ecdsa', hash };
  if (type === ALG.rsa && id === ALG.rsassa) return { algorithm: 'rsassa', hash };
  if (type === ALG.rsa && id === ALG.rsapss) return { algorithm: 'rsapss', hash };
  throw reader.fail('scheme', 'a signature scheme of the key type', hex(id));
}

function readKey(reader: WireReader, type: number): TpmKey {
  if (type === ALG.ecc) return readEccKey(reader);
  reader.expect(type, ALG.rsa, 'type');
  const bits = reader.u16('key bits');
  if (bits !== 2048 && bits !== 3072 && bits !== 4096)
    throw reader.fail('key bits', '2048, 3072 or 4096', `${bits}`);
  const exponent = reader.u32('exponent');
  if (exponent !== 0) reader.expect(exponent, 65537, 'exponent'); // 0 means 65537 (Part 2, 12.2.3.5)
  const modulus = reader.sized('modulus', bits / 8);
  if (modulus.length !== bits / 8 || (modulus[0] ?? 0) < 0x80)
    throw reader.fail('modulus', `${bits} bits`, 'fewer');
  return { kind: 'rsa', bits, exponent: 65537, modulus };
}

function readEccKey(reader: WireReader): TpmKey {
  const curve = curveName(reader.u16('curve'), 'curve');
  reader.expect(reader.u16('kdf'), ALG.null, 'kdf');
  const { sizeBytes } = CURVES[curve];
  const [x, y] = [reader.sized('x', sizeBytes), reader.sized('y', sizeBytes)];
  if (x.length !== sizeBytes || y.length !== sizeBytes) {
    throw reader.fail('point', `coordinates of ${sizeBytes} bytes`, `${x.length} and ${y.length}`);
  }
  return { kind: 'ecc', curve, x, y };
}
