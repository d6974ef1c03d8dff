import { MAX_EVIDENCE_BYTES, type Variant } from '../../attestation/index.ts';
import { MAX_STATEMENT_BYTES } from '../binding.ts';
import { FORMAT_OF_VARIANT } from '../trust.ts';
import { EvidenceSocketError } from './errors.ts';

/**
 * A request for evidence. Each connection carries one request and one response; a sender closes its writing side after
 * its message.
 *
 *     request  = "CEVQ" | format u16 | statement (at most 256 bytes, to the end)
 *     response = "CEVA" | status u8 | evidence (to the end; empty unless the status is `given`)
 */
export interface EvidenceRequest {
  readonly format: number;
  readonly statement: Uint8Array;
}

/** Outcome of a request. */
export type ResponseStatus = 'given' | 'refused' | 'busy';

const STATUSES: readonly ResponseStatus[] = ['given', 'refused', 'busy'];
const REQUEST_MAGIC = Buffer.from('CEVQ', 'ascii');
const RESPONSE_MAGIC = Buffer.from('CEVA', 'ascii');
const REQUEST_HEADER_BYTES = REQUEST_MAGIC.length + 2;
const RESPONSE_HEADER_BYTES = RESPONSE_MAGIC.length + 1;
/** Size limit of a request. */
export const MAX_REQUEST_BYTES = REQUEST_HEADER_BYTES + MAX_STATEMENT_BYTES;
/** Size limit of a response. */
export const MAX_RESPONSE_BYTES = RESPONSE_HEADER_BYTES + MAX_EVIDENCE_BYTES;

/** Encodes a request. Throws EvidenceSocketError for a statement that is too long. */
export function encodeRequest(variant: Variant, statement: Uint8Array): Uint8Array {
  if (statement.length > MAX_STATEMENT_BYTES) throw malformed(`a statement of ${statement.length} bytes`);
  const format = Buffer.alloc(2);
  format.writeUInt16BE(FORMAT_OF_VARIANT[variant]);
  return Buffer.concat([REQUEST_MAGIC, format, statement]);
}

/** Parses a request of the join service. Throws EvidenceSocketError `evidence-socket-malformed`. */
export function parseRequest(bytes: Buffer): EvidenceRequest {
  const hasHeader = bytes.length > REQUEST_HEADER_BYTES && startsWith(bytes, REQUEST_MAGIC);
  if (!hasHeader || bytes.length > MAX_REQUEST_BYTES) throw malformed(`a request of ${bytes.length} bytes`);
  return {
    format: bytes.readUInt16BE(REQUEST_MAGIC.length),
    statement: bytes.subarray(REQUEST_HEADER_BYTES),
  };
}

/** Encodes a response. */
export function encodeResponse(status: ResponseStatus, evidence: Uint8Array = new Uint8Array()): Uint8Array {
  return Buffer.concat([RESPONSE_MAGIC, Buffer.of(STATUSES.indexOf(status)), evidence]);
}

/** Parses the agent's response and returns the evidence. Throws EvidenceSocketError, also when the agent refused. */
export function parseResponse(bytes: Buffer): Uint8Array {
  const hasHeader = bytes.length >= RESPONSE_HEADER_BYTES && startsWith(bytes, RESPONSE_MAGIC);
  if (!hasHeader || bytes.length > MAX_RESPONSE_BYTES) throw malformed(`a response of ${bytes.length} bytes`);
  const status = STATUSES[bytes[RESPONSE_MAGIC.length] ?? -1];
  const evidence = bytes.subarray(RESPONSE_HEADER_BYTES);
  if (status === undefined || (status === 'given') !== evidence.length > 0) {
    throw malformed(`a response of status ${bytes[RESPONSE_MAGIC.length]} with ${evidence.length} bytes`);
  }
  if (status === 'given') return evidence;
  const code = status === 'refused' ? 'evidence-socket-refused' : 'evidence-socket-busy';
  throw new EvidenceSocketError(code, 'requesting evidence from the agent');
}

function startsWith(bytes: Buffer, magic: Buffer): boolean {
  return magic.equals(bytes.subarray(0, magic.length));
}

/** The error for a malformed message; `what` completes the text "reading …". */
export function malformed(what: string): EvidenceSocketError {
  return new EvidenceSocketError('evidence-socket-malformed', `reading ${what}`);
}
