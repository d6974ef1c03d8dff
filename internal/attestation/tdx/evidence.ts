import { decodeDocument, encodeDocument, hasMagic } from '../document.ts';
import { tdxErrors } from './errors.ts';

/** A quote and, if the machine has one, the event log of its runtime registers (CCEL). */
interface TdxEvidence {
  readonly quote: Uint8Array;
  readonly eventLog: Uint8Array | undefined;
}

const FORMAT = {
  magic: 'CTDX',
  maxParts: 2,
  catalogue: tdxErrors,
  malformed: 'tdx-document-malformed',
} as const;

/** Encodes an evidence document. */
export function encodeTdxEvidence({ quote, eventLog }: TdxEvidence): Uint8Array {
  return encodeDocument(FORMAT.magic, eventLog === undefined ? [quote] : [quote, eventLog]);
}

/** Decodes an evidence document, or a quote without a document around it. Throws AttestationError. */
export function decodeTdxEvidence(bytes: Uint8Array): TdxEvidence {
  if (!hasMagic(bytes, FORMAT.magic)) return { quote: bytes, eventLog: undefined };
  const [quote = new Uint8Array(), eventLog] = decodeDocument(bytes, FORMAT);
  return { quote, eventLog };
}
