import {
  hasAttributes,
  HIERARCHY,
  nameOf,
  OBJECT_ATTRIBUTE,
  qualifiedNameOf,
  TpmError,
  type ObjectAttribute,
  type SignatureScheme,
  type TpmPublic,
} from '../../tpm/index.ts';
import type { KeyObject } from 'node:crypto';
import { toHex } from '../bytes.ts';
import type { CheckList } from '../check-list.ts';
import type { QuoteErrorCode } from './errors.ts';
import { parseKey, type ParsedKey } from './key-cache.ts';

/** An attestation key with the required attributes. Its Name determines which machine it belongs to. */
export interface AttestationKey {
  readonly publicArea: TpmPublic;
  readonly scheme: SignatureScheme;
  readonly nameHex: string;
  /** The expected `qualifiedSigner` when the key is a primary of the endorsement hierarchy. */
  readonly qualifiedNameHex: string;
  readonly keyObject: KeyObject;
}

/** The key signs only data that the TPM generated (restricted), was created in the TPM and cannot leave it. */
const REQUIRED: readonly ObjectAttribute[] = [
  'fixedTpm',
  'fixedParent',
  'sensitiveDataOrigin',
  'restricted',
  'sign',
];
const FORBIDDEN: readonly ObjectAttribute[] = ['decrypt', 'encryptedDuplication', 'x509Sign', 'stClear'];

/**
 * Parses a key and checks its attributes. Only the Name of the key, a hash, protects the attributes: callers must
 * compare the Name with a trusted Name, or have it proved by credential activation. Throws AttestationError
 * `quote-key-…`.
 */
export function checkAttestationKey(
  bytes: Uint8Array,
  checks: CheckList<QuoteErrorCode>,
  parse: KeyParser = parseKey,
): AttestationKey {
  const { publicArea, keyObject } = readKey(bytes, parse, checks);
  const missing = REQUIRED.filter((name) => !hasAttributes(publicArea, [name]));
  const forbidden = FORBIDDEN.filter((name) => hasAttributes(publicArea, [name]));
  checks.require('quote-key-attributes', missing.length + forbidden.length === 0, {
    expected: `${REQUIRED.join(', ')}; not ${FORBIDDEN.join(', ')}`,
    actual: describeAttributes(publicArea),
  });
  const { scheme } = publicArea;
  const accepted = scheme !== undefined && publicArea.symmetric === undefined && scheme.hash !== 'sha512';
  if (!accepted) throw checks.refusal('quote-key-scheme', { expected: 'a fixed scheme', actual: 'none' });
  checks.require('quote-key-scheme', true, { actual: `${scheme.algorithm}-${scheme.hash}` });
  return {
    publicArea,
    scheme,
    nameHex: toHex(nameOf(publicArea)),
    qualifiedNameHex: toHex(qualifiedNameOf(publicArea, HIERARCHY.endorsement)),
    keyObject,
  };
}

function readKey(bytes: Uint8Array, parse: KeyParser, checks: CheckList<QuoteErrorCode>): ParsedKey {
  try {
    return parse(bytes);
  } catch (error) {
    if (!(error instanceof TpmError)) throw error;
    throw checks.refusal('quote-key-malformed', { actual: error.message }, { cause: error });
  }
}

function describeAttributes(publicArea: TpmPublic): string {
  const names = Object.keys(OBJECT_ATTRIBUTE) as ObjectAttribute[];
  return names.filter((name) => hasAttributes(publicArea, [name])).join(', ');
}

/** Parses TPMT_PUBLIC, possibly with a cache. Throws TpmError. */
export type KeyParser = (bytes: Uint8Array) => ParsedKey;
