import { WireReader } from '../wire.ts';
import { hex } from '../wire.ts';
import { readPcrSelection, type PcrSelection } from './pcr-selection.ts';

/** TPM_GENERATED_VALUE: a restricted key signs nothing else that begins so, only what the TPM itself made. */
const GENERATED = 0xff544347;
const TYPE_QUOTE = 0x8018;
const TYPE_NV = 0x8014;

export interface ClockInfo {
  /** Milliseconds powered since the TPM was cleared. */
  readonly clockMs: bigint;
  readonly resetCount: number;
  readonly restartCount: number;
  /** The clock has not been reported higher before: the last shutdown was orderly. */
  readonly safe: boolean;
}

interface AttestHeader {
  readonly qualifiedSigner: Uint8Array;
  /** What the caller of the TPM gave: nonce, hash, binding. */
  readonly extraData: Uint8Array;
  readonly clock: ClockInfo;
  readonly firmwareVersion: bigint;
}

export interface QuoteAttest extends AttestHeader {
  readonly kind: 'quote';
  readonly selection: PcrSelection;
  readonly pcrDigest: Uint8Array;
}

export interface NvAttest extends AttestHeader {
  readonly kind: 'nv';
  readonly indexName: Uint8Array;
  readonly offset: number;
  readonly contents: Uint8Array;
}

/** Parses TPMS_ATTEST of type quote and nothing else (Part 2, 10.12.8). Throws `tpm-malformed`. */
export function parseQuoteAttest(bytes: Uint8Array): QuoteAttest {
  const reader = new WireReader(bytes, 'a quote');
  const header = readHeader(reader, TYPE_QUOTE);
  const selection = readPcrSelection(reader);
  const pcrDigest = reader.sized('PCR digest', 64);
  reader.end();
  return { kind: 'quote', ...header, selection, pcrDigest };
}

/** Parses TPMS_ATTEST of type NV: certified contents of an NV index. */
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
