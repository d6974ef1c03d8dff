import { decodeDocument, encodeDocument, hasMagic } from '../document.ts';
import { LittleEndianReader, isZero } from '../bytes.ts';
import { AttestationError } from '../errors.ts';
import { snpErrors } from './errors.ts';

/** A report with the certificates that came along. */
export interface SnpEvidence {
  readonly report: Uint8Array;
  /** DER, in any order. */
  readonly certificates: readonly Uint8Array[];
}

const FORMAT = {
  magic: 'CSNP',
  maxParts: 8,
  catalogue: snpErrors,
  malformed: 'snp-document-malformed',
} as const;
const ENTRY_BYTES = 24;
const MAX_ENTRIES = 32;

export function encodeSnpEvidence({ report, certificates }: SnpEvidence): Uint8Array {
  return encodeDocument(FORMAT.magic, [report, ...certificates]);
}

/** Our document, or the bare report of the manufacturer. */
export function decodeSnpEvidence(bytes: Uint8Array): SnpEvidence {
  if (!hasMagic(bytes, FORMAT.magic)) return { report: bytes, certificates: [] };
  const [report = new Uint8Array(), ...certificates] = decodeDocument(bytes, FORMAT);
  return { report, certificates };
}

/**
 * The certificates in the table that the host hands to the machine (GHCB specification 56421, §4.1.8.1): entries of
 * { guid[16], offset u32, length u32 }, a zero entry at the end, then the bytes. The host controls it; what each
 * certificate is shows in itself, so the guids are not asked. Used on the machine, before evidence is sent.
 */
export function certificatesFromTable(table: Uint8Array): Uint8Array[] {
  const at = new LittleEndianReader(table);
  const certificates: Uint8Array[] = [];
  for (let entry = 0; ; entry += ENTRY_BYTES) {
    if (entry + ENTRY_BYTES > table.length || certificates.length > MAX_ENTRIES)
      throw malformed('no end of the table');
    if (isZero(at.bytes(entry, ENTRY_BYTES))) return certificates;
    const offset = at.u32(entry + 16);
    const length = at.u32(entry + 20);
    if (offset + length > table.length) throw malformed('a certificate beyond the end of the table');
    certificates.push(at.bytes(offset, length));
  }
}

function malformed(what: string): Error {
  return new AttestationError(snpErrors, 'snp-document-malformed', `reading a certificate table: ${what}`);
}
