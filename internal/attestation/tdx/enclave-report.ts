import { LittleEndianReader } from '../bytes.ts';

/** The checked fields of the report of the quoting enclave (SGX REPORTBODY, 384 bytes). */
export interface EnclaveReport {
  readonly miscSelect: Uint8Array;
  readonly attributes: Uint8Array;
  readonly mrSigner: Uint8Array;
  readonly isvProdId: number;
  readonly isvSvn: number;
  readonly reportData: Uint8Array;
}

/** Parses the 384 bytes of an enclave report. */
export function parseEnclaveReport(bytes: Uint8Array): EnclaveReport {
  const at = new LittleEndianReader(bytes);
  return {
    miscSelect: at.bytes(16, 4),
    attributes: at.bytes(48, 16),
    mrSigner: at.bytes(128, 32),
    isvProdId: at.u16(256),
    isvSvn: at.u16(258),
    reportData: at.bytes(320, 64),
  };
}
