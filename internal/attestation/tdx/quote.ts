import { CheckList } from '../check-list.ts';
import { equalBytes, isZero, LittleEndianReader } from '../bytes.ts';
import { tdxErrors, type TdxErrorCode } from './errors.ts';
import { parseTdReport, TD_BODY_BYTES, type TdReport } from './report.ts';

/** A quote, parsed and not verified. All bytes are views of the input. */
export interface TdxQuote {
  readonly version: 4 | 5;
  readonly report: TdReport;
  /** Header and body, the bytes that the attestation key signed. */
  readonly signed: Uint8Array;
  /** r then s, 32 bytes each. */
  readonly signature: Uint8Array;
  /** x then y, 32 bytes each. */
  readonly attestationKey: Uint8Array;
  readonly qeReport: Uint8Array;
  readonly qeReportSignature: Uint8Array;
  readonly qeAuthData: Uint8Array;
  /** PEM text of the PCK chain. */
  readonly pckChainPem: string;
}

const HEADER_BYTES = 48;
const ECDSA_P256 = 2;
const TEE_TDX = 0x81;
const INTEL_QE_VENDOR = Buffer.from('939a7233f79c4ca9940a0db3957f0607', 'hex');
const QE_REPORT_CERTIFICATION = { type: 6, subject: 'quoting-enclave' };
const PCK_CHAIN_CERTIFICATION = { type: 5, subject: 'pck' };
const QE_REPORT_BYTES = 384;
const ECDSA_BYTES = 64;

type Checks = CheckList<TdxErrorCode>;

/**
 * Parses a quote of version 4 or 5 (Intel DCAP quote library reference, appendix A.3 and A.4). Every length must match its
 * content exactly. Zeros after the quote are accepted, because buffers are larger than quotes. Throws AttestationError.
 */
export function parseQuote(
  bytes: Uint8Array,
  checks: Checks = new CheckList(tdxErrors, 'reading a TDX quote'),
): TdxQuote {
  const reader = new QuoteReader(bytes, checks);
  const version = parseHeader(reader.take(HEADER_BYTES), checks);
  const report = version === 4 ? parseTdReport(2, reader.take(TD_BODY_BYTES[2])) : parseBody(reader, checks);
  const signed = bytes.subarray(0, reader.offset);
  const signatureData = reader.nested(reader.u32());
  checks.require('tdx-tail', isZero(reader.rest()));
  const signature = parseSignatureData(signatureData, checks);
  checks.require('tdx-quote-malformed', true);
  return { version, report, signed, ...signature };
}

function parseHeader(header: Uint8Array, checks: Checks): 4 | 5 {
  const at = new LittleEndianReader(header);
  const version = at.u16(0);
  checks.require('tdx-quote-version', version === 4 || version === 5, {
    expected: '4 or 5',
    actual: version,
  });
  checks.require('tdx-key-type', at.u16(2) === ECDSA_P256, { expected: ECDSA_P256, actual: at.u16(2) });
  checks.require('tdx-tee-type', at.u32(4) === TEE_TDX, { expected: TEE_TDX, actual: at.u32(4) });
  checks.require('tdx-qe-vendor', equalBytes(at.bytes(12, 16), INTEL_QE_VENDOR));
  return version === 4 ? 4 : 5;
}

/** Version 5 has type and size of the body, which must match. */
function parseBody(reader: QuoteReader, checks: Checks): TdReport {
  const type = reader.u16();
  const size = reader.u32();
  const bodyType = type === 2 || type === 3 || type === 4 ? type : undefined;
  checks.require('tdx-body-type', bodyType !== undefined && size === TD_BODY_BYTES[bodyType], {
    expected: 'type 2 of 584, type 3 of 648 or type 4 of 885 bytes',
    actual: `type ${type} of ${size} bytes`,
  });
  return parseTdReport(bodyType ?? 2, reader.take(size));
}

function parseSignatureData(reader: QuoteReader, checks: Checks) {
  const signature = reader.take(ECDSA_BYTES);
  const attestationKey = reader.take(ECDSA_BYTES);
  const certification = parseCertification(reader, QE_REPORT_CERTIFICATION, checks);
  reader.end();
  const qeReport = certification.take(QE_REPORT_BYTES);
  const qeReportSignature = certification.take(ECDSA_BYTES);
  const qeAuthData = certification.take(certification.u16());
  const pckChainPem = pemText(parseCertification(certification, PCK_CHAIN_CERTIFICATION, checks).rest());
  certification.end();
  return { signature, attestationKey, qeReport, qeReportSignature, qeAuthData, pckChainPem };
}

function parseCertification(
  reader: QuoteReader,
  { type: expected, subject }: { readonly type: number; readonly subject: string },
  checks: Checks,
): QuoteReader {
  const type = reader.u16();
  checks.require('tdx-certification-type', type === expected, { subject, expected, actual: type });
  return reader.nested(reader.u32());
}

/** The quoting enclave ends the text with a NUL. */
function pemText(bytes: Uint8Array): string {
  const end = bytes.at(-1) === 0 ? bytes.length - 1 : bytes.length;
  return Buffer.from(bytes.subarray(0, end)).toString('latin1');
}

/** Reads bytes in order. Throws AttestationError `tdx-quote-malformed` when there are not enough. */
class QuoteReader {
  readonly #bytes: Uint8Array;
  readonly #checks: Checks;
  offset = 0;

  constructor(bytes: Uint8Array, checks: Checks) {
    this.#bytes = bytes;
    this.#checks = checks;
  }

  take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.offset) {
      throw this.#checks.refusal('tdx-quote-malformed', {
        expected: `${length} bytes at ${this.offset}`,
        actual: `${this.#bytes.length - this.offset} bytes`,
      });
    }
    this.offset += length;
    return this.#bytes.subarray(this.offset - length, this.offset);
  }

  u16(): number {
    return new LittleEndianReader(this.take(2)).u16(0);
  }

  u32(): number {
    return new LittleEndianReader(this.take(4)).u32(0);
  }

  nested(length: number): QuoteReader {
    return new QuoteReader(this.take(length), this.#checks);
  }

  rest(): Uint8Array {
    return this.take(this.#bytes.length - this.offset);
  }

  end(): void {
    const left = this.#bytes.length - this.offset;
    if (left > 0)
      throw this.#checks.refusal('tdx-quote-malformed', {
        expected: 'no bytes after the last field',
        actual: `${left} extra bytes`,
      });
  }
}
