import type { KeyObject } from 'node:crypto';
import { keyObjectOf, parsePublic, type TpmPublic } from '../../tpm/index.ts';
import { ParsedCache } from '../parsed-cache.ts';

/** A parsed public area, with the key for node:crypto. */
export interface ParsedKey {
  readonly publicArea: TpmPublic;
  readonly keyObject: KeyObject;
}

/**
 * A bounded LRU cache of parsed attestation keys, by the hash of their bytes. Parsing a key costs half as much as verifying a
 * signature, and a machine sends the same key each time. No result of a verification is cached.
 */
export class AttestationKeyCache extends ParsedCache<ParsedKey> {
  constructor(maxKeys = 1024) {
    super(maxKeys, parseKey);
  }
}

/** Parses TPMT_PUBLIC. Throws TpmError `tpm-malformed`. */
export function parseKey(bytes: Uint8Array): ParsedKey {
  const publicArea = parsePublic(bytes);
  return { publicArea, keyObject: keyObjectOf(publicArea.key) };
}
