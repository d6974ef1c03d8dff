import {
  nvNameOf,
  parseNvAttest,
  WireReader,
  type NvAttest,
  type NvPublic,
  type SignedAttest,
} from '../../tpm/index.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { CheckList } from '../check-list.ts';
import { checkAttestationKey, type AttestationKey } from './attestation-key.ts';
import { quoteErrors, type QuoteErrorCode } from './errors.ts';
import { refusalFromTpmError, STATEMENT_CODES, verifyStatementSignature } from './verify-quote.ts';

/** The expected properties of a certified NV counter. */
export interface NvCertificateOptions {
  /** TPMT_PUBLIC of a key whose Name the caller trusts. */
  readonly attestationKey: Uint8Array;
  /** The extraData that was passed to the TPM: a hash of the verifier's nonce and its purpose. */
  readonly extraData: Uint8Array;
  /** The expected definition of the index, including the written bit. */
  readonly index: NvPublic;
}

const COUNTER_BYTES = 8;

/** Verifies a TPM's certificate of a counter and returns the value. Throws AttestationError. */
export function verifyCounterCertificate(certificate: SignedAttest, options: NvCertificateOptions): bigint {
  const checks: CheckList<QuoteErrorCode> = new CheckList(quoteErrors, 'verifying an NV certificate');
  const key = checkAttestationKey(options.attestationKey, checks);
  const statement = readNvStatement(certificate.attest, checks);
  verifyStatementSignature(key, certificate, checks);
  checkSigner(key, statement, checks);
  checks.require('quote-binding', equalBytes(statement.extraData, options.extraData), {
    expected: toHex(options.extraData),
    actual: toHex(statement.extraData),
  });
  checks.require('quote-nv-index', equalBytes(statement.indexName, nvNameOf(options.index)), {
    expected: toHex(nvNameOf(options.index)),
    actual: toHex(statement.indexName),
  });
  checks.require('quote-nv-range', statement.offset === 0 && statement.contents.length === COUNTER_BYTES, {
    expected: `${COUNTER_BYTES} bytes at offset 0`,
    actual: `${statement.contents.length} bytes at offset ${statement.offset}`,
  });
  return new WireReader(statement.contents, 'a certified counter').u64('value');
}

function checkSigner(key: AttestationKey, statement: NvAttest, checks: CheckList<QuoteErrorCode>): void {
  checks.require('quote-qualified-signer', toHex(statement.qualifiedSigner) === key.qualifiedNameHex, {
    expected: key.qualifiedNameHex,
    actual: toHex(statement.qualifiedSigner),
  });
}

function readNvStatement(bytes: Uint8Array, checks: CheckList<QuoteErrorCode>): NvAttest {
  try {
    return parseNvAttest(bytes);
  } catch (error) {
    throw refusalFromTpmError(error, STATEMENT_CODES, 'quote-attest-malformed', checks);
  }
}
