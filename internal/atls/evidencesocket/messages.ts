import { MAX_EVIDENCE_BYTES, type Variant } from '../../attestation/index.ts';
import { MAX_STATEMENT_BYTES } from '../binding.ts';
import { FORMAT_OF_VARIANT } from '../trust.ts';
import { EvidenceSocketError } from './errors.ts';

/**
 * One question and one answer for each connection; whoever has said all closes for writing.
 *
 *     question = "CEVQ" | format u16 | statement (at most 256 bytes, to the end)
 *     answer   = "CEVA" | status u8 | evidence (to the end; empty unless the status is `given`)
 */
export interface EvidenceRequest {
  readonly format: number;
  readonly statement: Uint8Array;
}

export type ResponseStatus = 'given' | 'refused' | 'busy';

const STATUSES: readonly ResponseStatus[] = ['given', 'refused', 'busy'];
const QUESTION = Buffer.from('CEVQ', 'ascii');
const ANSWER = Buffer.from('CEVA', 'ascii');
const QUESTION_HEAD_BYTES = QUESTION.length + 2;
const ANSWER_HEAD_BYTES = ANSWER.length + 1;
export const MAX_REQUEST_BYTES = QUESTION_HEAD_BYTES + MAX_STATEMENT_BYTES;
export const MAX_RESPONSE_BYTES = ANSWER_HEAD_BYTES + MAX_EVIDENCE_BYTES;

export function encodeRequest(variant: Variant, statement: Uint8Array): Uint8Array {
  if (statement.length > MAX_STATEMENT_BYTES) throw malformed(`a statement of ${statement.length} bytes`);
  const format = Buffer.alloc(2);
  format.writeUInt16BE(FORMAT_OF_VARIANT[variant]);
  return Buffer.concat([QUESTION, format, statement]);
}

export function parseRequest(bytes: Buffer): EvidenceRequest {
  const isOurs = bytes.length > QUESTION_HEAD_BYTES && QUESTION.equals(bytes.subarray(0, QUESTION.length));
  if (!isOurs || bytes.length > MAX_REQUEST_BYTES) throw malformed(`a question of ${bytes.length} bytes`);
  return { format: bytes.readUInt16BE(QUESTION.length), statement: bytes.subarray(QUESTION_HEAD_BYTES) };
}

export function encodeResponse(status: ResponseStatus, evidence: Uint8Array = new Uint8Array()): Uint8Array {
  return Buffer.concat([ANSWER, Buffer.of(STATUSES.indexOf(status)), evidence]);
}

/** The evidence, or what the agent said instead. */
export function parseResponse(bytes: Buffer): Uint8Array {
  const isOurs = bytes.length >= ANSWER_HEAD_BYTES && ANSWER.equals(bytes.subarray(0, ANSWER.length));
  if (!isOurs || bytes.length > MAX_RESPONSE_BYTES) throw malformed(`an answer of ${bytes.length} bytes`);
  const status = STATUSES[bytes[ANSWER.length] ?? -1];
  const evidence = bytes.subarray(ANSWER_HEAD_BYTES);
  if (status === undefined || (status === 'given') !== evidence.length > 0) {
    throw malformed(`an answer of status ${bytes[ANSWER.length]} with ${evidence.length} bytes`);
  }
  if (status === 'given') return evidence;
  const code = status === 'refused' ? 'evidence-socket-refused' : 'evidence-socket-busy';
  throw new EvidenceSocketError(code, 'asking the agent for evidence');
}

export function malformed(what: string): EvidenceSocketError {
  return new EvidenceSocketError('evidence-socket-malformed', `reading ${what}`);
}
