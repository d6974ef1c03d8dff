import { hex, WireReader } from '../wire.ts';
import { readPcrSelection, type PcrSelection } from './pcr-selection.ts';

/**
 * TPM_GENERATED_VALUE, the start of every statement of the TPM itself. A restricted key refuses to sign data from
 * outside of the TPM that start with this value.
 */
const GENERATED = 0xff544347;
const TYPE_QUOTE = 0x8018;
const TYPE_NV = 0x8014;

/** TPMS_CLOCK_INFO (Part 2, 10.11.1). */
export interface ClockInfo {
  /** Milliseconds that the TPM had power since it was last cleared. */
  readonly clockMs: bigint;
  readonly resetCount: number;
  readonly restartCount: number;
  /** Whether `clockMs` was never higher than now; false after a shutdown that was not orderly. */
  readonly safe: boolean;
}

interface AttestHeader {
  readonly qualifiedSigner: Uint8Array;
  /** Chosen by the caller of the TPM: a nonce, hash or binding. */
  readonly extraData: Uint8Array;
  readonly clock: ClockInfo;
  readonly firmwareVersion: bigint;
}

/** A quote. */
export interface QuoteAttest extends AttestHeader {
  readonly kind: 'quote';
  readonly selection: PcrSelection;
  readonly pcrDigest: Uint8Array;
}

/** A signed statement about the content of an NV index. */
export interface NvAttest extends AttestHeader {
  readonly kind: 'nv';
  readonly indexName: Uint8Array;
  readonly offset: number;
  readonly contents: Uint8Array;
}

/** Parses one TPMS_ATTEST of type quote (Part 2, 10.12.8). Throws TpmError `tpm-malformed`. */
export function parseQuoteAttest(bytes: Uint8Array): QuoteAttest {
  const reader = new WireReader(bytes, 'a quote');
  const header = readHeader(reader, TYPE_QUOTE);
  const selection = readPcrSelection(reader);
  const pcrDigest = reader.sized('PCR digest', 64);
  reader.end();
  return { kind: 'quote', ...header, selection, pcrDigest };
}

/** Parses one TPMS_ATTEST of type NV. Throws TpmError `tpm-malformed`. */
export function parseNvAttest(bytes: Uint8Array): NvAttest {
  const reader = new WireReader(bytes, 'an NV certificate');
  const header = readHeader(reader, TYPE_NV);
  const indexName = reader.sized('index name', 66);
  const offset = reader.u16('offset');
  const contents = reader.sized('contents', 2048);
  reader.end();
  return { kind: 'nv', ...header, indexName, offset, contents };
}

function readHeader(reader: WireReader, type: number): AttestHeader {
  reader.expect(reader.u32('magic'), GENERATED, 'magic');
  reader.expect(reader.u16('type'), type, 'type');
  return {
    qualifiedSigner: reader.sized('qualifiedSigner', 66),
    extraData: reader.sized('extraData', 64),
    clock: readClock(reader),
    firmwareVersion: reader.u64('firmwareVersion'),
  };
}

function readClock(reader: WireReader): ClockInfo {
  const clockMs = reader.u64('clock');
  const resetCount = reader.u32('resetCount');
  const restartCount = reader.u32('restartCount');
  const safe = reader.u8('safe');
  if (safe > 1) throw reader.fail('safe', '0 or 1', hex(safe));
  return { clockMs, resetCount, restartCount, safe: safe === 1 };
}
