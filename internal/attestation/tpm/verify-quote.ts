import type { KeyObject } from 'node:crypto';
import {
  isCanonical,
  isSignedBy,
  parseQuoteAttest,
  parseSignature,
  pcrDigest,
  TpmError,
  type QuoteAttest,
  type TpmSignature,
} from '../../tpm/index.ts';
import { equalBytes, toHex } from '../bytes.ts';
import type { CheckList } from '../check-list.ts';
import { checkAttestationKey, type AttestationKey, type KeyParser } from './attestation-key.ts';
import type { QuoteErrorCode } from './errors.ts';
import type { QuoteParts } from './evidence.ts';
import { RESETTABLE_PCRS } from './rules.ts';

/**
 * A quote that a key in a TPM signed, with its PCR values. The owner of the key and the session are not yet verified.
 */
export interface VerifiedQuote {
  readonly key: AttestationKey;
  readonly statement: QuoteAttest;
  readonly pcrValues: ReadonlyMap<number, Uint8Array>;
}

/** Options of `verifyQuote()`. */
interface QuoteOptions {
  /** Qualified Name of a key that is not a primary key of the endorsement hierarchy; default: computed from the key. */
  readonly qualifiedNameHex?: string | undefined;
  /** Set if the parent of the key is unknown: the signer is then checked only for primary keys of the endorsement hierarchy. */
  readonly parentUnknown?: boolean | undefined;
  /** Default: parses without a cache. */
  readonly parseKey?: KeyParser | undefined;
}

/** Verifies form, key, signature, signer and PCR values of a quote. Throws AttestationError `quote-…`. */
export function verifyQuote(
  parts: QuoteParts,
  checks: CheckList<QuoteErrorCode>,
  { qualifiedNameHex, parentUnknown = false, parseKey }: QuoteOptions = {},
): VerifiedQuote {
  const key = checkAttestationKey(parts.attestationKey, checks, parseKey);
  const statement = readStatement(parts.attest, checks);
  verifyStatementSignature(key, parts, checks);
  const expected = qualifiedNameHex ?? key.qualifiedNameHex;
  const actual = toHex(statement.qualifiedSigner);
  if (parentUnknown && actual !== expected) checks.skip('quote-qualified-signer', { actual });
  else checks.require('quote-qualified-signer', actual === expected, { expected, actual });
  checkPcrValues(statement, parts.pcrValues, key.scheme.hash, checks);
  return { key, statement, pcrValues: parts.pcrValues };
}

/**
 * Verifies signature and PCR values of a quote whose key is known only as a public key (for example from a PEM file),
 * without its TPM attributes. So it is not proved that a TPM holds the key, or that the key signs only data of the TPM.
 * Throws AttestationError `quote-…`.
 */
export function verifyQuoteByKey(
  parts: Omit<QuoteParts, 'attestationKey'>,
  keyObject: KeyObject,
  checks: CheckList<QuoteErrorCode>,
): Pick<VerifiedQuote, 'statement' | 'pcrValues'> {
  checks.skip('quote-key-attributes', { actual: 'a key without its public area' });
  const statement = readStatement(parts.attest, checks);
  const signature = readSignature(parts.signature, checks);
  const isOfKind = (signature.algorithm === 'ecdsa') === (keyObject.asymmetricKeyType === 'ec');
  checks.require('quote-signature', isOfKind && isSignedBy(keyObject, signature, parts.attest));
  checkPcrValues(statement, parts.pcrValues, signature.hash, checks);
  return { statement, pcrValues: parts.pcrValues };
}

/** Verifies the signature of a statement, which must use the scheme of the key and be in canonical form. */
export function verifyStatementSignature(
  key: AttestationKey,
  { attest, signature: bytes }: Pick<QuoteParts, 'attest' | 'signature'>,
  checks: CheckList<QuoteErrorCode>,
): void {
  const signature = readSignature(bytes, checks);
  checks.require(
    'quote-signature-scheme',
    signature.algorithm === key.scheme.algorithm && signature.hash === key.scheme.hash,
    {
      expected: `${key.scheme.algorithm}-${key.scheme.hash}`,
      actual: `${signature.algorithm}-${signature.hash}`,
    },
  );
  checks.require('quote-signature-form', isCanonical(signature, key.publicArea.key));
  checks.require('quote-signature', isSignedBy(key.keyObject, signature, attest));
}

/** Checks the PCRs: one bank, at least one PCR that software cannot reset, and exactly the signed values. */
function checkPcrValues(
  { selection, pcrDigest: signed }: QuoteAttest,
  values: ReadonlyMap<number, Uint8Array>,
  signatureHash: TpmSignature['hash'],
  checks: CheckList<QuoteErrorCode>,
): void {
  checks.require('quote-pcr-bank', selection.hash === 'sha256', {
    expected: 'sha256',
    actual: selection.hash,
  });
  checks.require('quote-pcr-selection', selection.pcrs.length > 0, { actual: selection.pcrs.join(',') });
  const lasting = selection.pcrs.filter((pcr) => !RESETTABLE_PCRS.includes(pcr));
  checks.require('quote-pcr-resettable', lasting.length > 0, { actual: selection.pcrs.join(',') });
  const given = [...values.keys()];
  checks.require('quote-pcr-values', given.join(',') === selection.pcrs.join(','), {
    expected: selection.pcrs.join(','),
    actual: given.join(','),
  });
  // The digest uses the hash algorithm of the signature, independent of the bank (Part 3, 18.4).
  const computed = pcrDigest(values, signatureHash);
  checks.require('quote-pcr-digest', equalBytes(computed, signed), {
    expected: toHex(signed),
    actual: toHex(computed),
  });
}

function readStatement(bytes: Uint8Array, checks: CheckList<QuoteErrorCode>): QuoteAttest {
  try {
    return parseQuoteAttest(bytes);
  } catch (error) {
    throw refusalFromTpmError(error, STATEMENT_CODES, 'quote-attest-malformed', checks);
  }
}

function readSignature(bytes: Uint8Array, checks: CheckList<QuoteErrorCode>): TpmSignature {
  try {
    return parseSignature(bytes);
  } catch (error) {
    throw refusalFromTpmError(error, SIGNATURE_CODES, 'quote-signature-malformed', checks);
  }
}

/** Fields with their own check; other malformed fields share one code. */
const STATEMENT_CODES: Readonly<Record<string, QuoteErrorCode>> = {
  magic: 'quote-magic',
  type: 'quote-type',
  'number of PCR selections': 'quote-pcr-selection',
  'PCR bank': 'quote-pcr-bank',
};
const SIGNATURE_CODES: Readonly<Record<string, QuoteErrorCode>> = {
  'signature algorithm': 'quote-signature-algorithm',
  'signature hash': 'quote-signature-algorithm',
};

/** Turns TpmError `tpm-malformed` of a parser into the refusal for its field. Returns other errors unchanged. */
export function refusalFromTpmError(
  error: unknown,
  codes: Readonly<Record<string, QuoteErrorCode>>,
  otherwise: QuoteErrorCode,
  checks: CheckList<QuoteErrorCode>,
): unknown {
  if (!(error instanceof TpmError)) return error;
  const { field, expected, actual } = error.details as Readonly<Record<string, string | undefined>>;
  const code = (field === undefined ? undefined : codes[field]) ?? otherwise;
  return checks.refusal(
    code,
    { ...(expected === undefined ? {} : { expected }), ...(actual === undefined ? {} : { actual }) },
    { cause: error },
  );
}

export { STATEMENT_CODES };
