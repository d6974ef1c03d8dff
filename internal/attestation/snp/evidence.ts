import { decodeDocument, encodeDocument, hasMagic } from '../document.ts';
import { LittleEndianReader, isZero } from '../bytes.ts';
import { AttestationError } from '../errors.ts';
import { snpErrors } from './errors.ts';

/** A report with the certificates that the host provided. */
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

/** Encodes an evidence document. */
export function encodeSnpEvidence({ report, certificates }: SnpEvidence): Uint8Array {
  return encodeDocument(FORMAT.magic, [report, ...certificates]);
}

/** Decodes an evidence document, or a report without a document around it. Throws AttestationError. */
export function decodeSnpEvidence(bytes: Uint8Array): SnpEvidence {
  if (!hasMagic(bytes, FORMAT.magic)) return { report: bytes, certificates: [] };
  const [report = new Uint8Array(), ...certificates] = decodeDocument(bytes, FORMAT);
  return { report, certificates };
}

/**
 * Extracts the certificates from the table that the host gives to the machine (GHCB specification 56421, §4.1.8.1): entries of
 * { guid[16], offset u32, length u32 }, a zero entry at the end, then the certificates. The table is untrusted and its GUIDs
 * are ignored. Used on the machine, before evidence is sent.
 */
export function certificatesFromTable(table: Uint8Array): Uint8Array[] {
  const at = new LittleEndianReader(table);
  const certificates: Uint8Array[] = [];
  for (let entry = 0; ; entry += ENTRY_BYTES) {
    if (entry + ENTRY_BYTES > table.length || certificates.length > MAX_ENTRIES)
      throw malformed('no end marker');
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
