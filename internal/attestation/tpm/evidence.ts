import {
  MAX_LEAVES,
  MAX_PATH,
  NODE_BYTES,
  WireReader,
  WireWriter,
  type BatchedQuote,
  type SignedAttest,
} from '../../tpm/index.ts';
import { decodeDocument, encodeDocument } from '../document.ts';
import { AttestationError } from '../errors.ts';
import { quoteErrors } from './errors.ts';

/**
 * The evidence document of a TPM: `decodeDocument`'s frame with the magic `CTPM` and six parts, or eight.
 *
 *   1 attestation key   TPMT_PUBLIC                        checked by its Name
 *   2 statement         TPMS_ATTEST of type quote          signed
 *   3 signature         TPMT_SIGNATURE, canonical          verified; only one form verifies
 *   4 PCR values        (index u8 | length u8 = 32 | value)…   checked by the digest in 2
 *   5 Merkle proof      size u32 | index u32 | sibling[32]…    leads to the extraData in 2
 *   6 event log         as the firmware wrote it, or empty     its hash is in the extraData in 2
 *   7 counter statement TPMS_ATTEST of type NV             signed; the lock counter, certified for the quote in 2
 *   8 counter signature TPMT_SIGNATURE, canonical          verified
 *
 * 7 and 8 are present if the lock counter of the machine has a value; the extraData in 2 covers whether they are
 * present. No byte can be changed without a refusal. All numbers are big-endian.
 */
export interface TpmEvidence extends QuoteParts {
  readonly proof: { readonly size: number; readonly index: number; readonly path: readonly Uint8Array[] };
  readonly eventLog: Uint8Array;
  /** Certificate of the lock counter; absent if the machine was never locked or has no counter. */
  readonly lockCounter?: SignedAttest;
}

/** A quote with its key and PCR values, as TPM tools return it. */
export interface QuoteParts {
  readonly attestationKey: Uint8Array;
  readonly attest: Uint8Array;
  readonly signature: Uint8Array;
  /** By PCR index, ascending as in the document. */
  readonly pcrValues: ReadonlyMap<number, Uint8Array>;
}

const FORMAT = {
  magic: 'CTPM',
  maxParts: 8,
  catalogue: quoteErrors,
  malformed: 'quote-document-malformed',
} as const;
const PARTS = '6 or 8';
const VALUE_BYTES = 32;

/** Encodes an evidence document. */
export function encodeTpmEvidence(quote: BatchedQuote): Uint8Array {
  const values = new WireWriter();
  for (const [pcr, value] of quote.pcrValues) values.u8(pcr).u8(value.length).bytes(value);
  const proof = new WireWriter().u32(quote.size).u32(quote.index);
  for (const sibling of quote.path) proof.bytes(sibling);
  return encodeDocument(FORMAT.magic, [
    quote.attestationKey,
    quote.attest,
    quote.signature,
    values.finish(),
    proof.finish(),
    quote.attachment,
    ...(quote.lockCounter === undefined ? [] : [quote.lockCounter.attest, quote.lockCounter.signature]),
  ]);
}

/**
 * Decodes an untrusted document. Throws AttestationError `quote-document-malformed`, `quote-pcr-values` or
 * `quote-proof-malformed`.
 */
export function decodeTpmEvidence(bytes: Uint8Array): TpmEvidence {
  const parts = decodeDocument(bytes, FORMAT);
  const [attestationKey, attest, signature, values, proof, eventLog, counter, counterSignature] = parts;
  const isHalf = (counter === undefined) !== (counterSignature === undefined);
  if (!attestationKey || !attest || !signature || !values || !proof || !eventLog || isHalf) {
    throw refuse('quote-document-malformed', `${PARTS} parts`, `${parts.length}`);
  }
  return {
    attestationKey,
    attest,
    signature,
    pcrValues: decodeValues(values),
    proof: decodeProof(proof),
    eventLog,
    ...(counter && counterSignature && { lockCounter: { attest: counter, signature: counterSignature } }),
  };
}

function decodeValues(bytes: Uint8Array): ReadonlyMap<number, Uint8Array> {
  const ENTRY_BYTES = 2 + VALUE_BYTES;
  const values = new Map<number, Uint8Array>();
  const reader = new WireReader(bytes, 'PCR values');
  let last = -1;
  while (reader.remaining > 0) {
    if (reader.remaining < ENTRY_BYTES)
      throw refuse('quote-pcr-values', 'whole entries', 'an incomplete entry');
    const pcr = reader.u8('index');
    const length = reader.u8('length');
    if (pcr <= last) throw refuse('quote-pcr-values', `an index above ${last}`, `${pcr}`);
    if (length !== VALUE_BYTES) throw refuse('quote-pcr-values', `${VALUE_BYTES} bytes`, `${length}`);
    values.set(pcr, reader.bytes(VALUE_BYTES, 'value'));
    last = pcr;
  }
  return values;
}

function decodeProof(bytes: Uint8Array): TpmEvidence['proof'] {
  const siblings = (bytes.length - 8) / NODE_BYTES;
  if (!Number.isInteger(siblings) || siblings < 0 || siblings > MAX_PATH) {
    throw refuse('quote-proof-malformed', `at most ${MAX_PATH} siblings`, `${bytes.length} bytes`);
  }
  const reader = new WireReader(bytes, 'a Merkle proof');
  const size = reader.u32('size');
  const index = reader.u32('index');
  if (size === 0 || size > MAX_LEAVES || index >= size) {
    throw refuse('quote-proof-malformed', `a leaf of at most ${MAX_LEAVES}`, `${index} of ${size}`);
  }
  const path = Array.from({ length: siblings }, () => reader.bytes(NODE_BYTES, 'sibling'));
  return { size, index, path };
}

function refuse(
  code: 'quote-document-malformed' | 'quote-pcr-values' | 'quote-proof-malformed',
  expected: string,
  actual: string,
): Error {
  return new AttestationError(quoteErrors, code, 'reading TPM evidence', { expected, actual });
}
