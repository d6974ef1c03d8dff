import { createHash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../config/index.ts';
import { ED25519_SIGNATURE_BYTES, ed25519PubKeyFrom, lengthPrefixed, signEd25519 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { bodyShapes, DOCUMENT_KINDS, rawKey, type DocumentBodies, type DocumentKind } from './bodies.ts';
import { OwnerDocumentError } from './errors.ts';

/** Of a whole document, its signature included. */
export const MAX_DOCUMENT_BYTES = 64 * 1024;
const LENGTH_BYTES = 4;
const LABEL = 'cluster/authority/document/v1\0';

const headShape = z.strictObject({
  version: z.literal(1),
  kind: z.string(),
  clusterId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  epoch: z.int().positive(),
  serial: z.int().positive(),
  issuedMs: z.int().positive(),
  endsMs: z.int().positive(),
  signer: rawKey,
  body: z.unknown(),
});

/** What an owner says, before it is signed. */
export interface DocumentContent<K extends DocumentKind> {
  readonly kind: K;
  readonly clusterId: string;
  readonly epoch: number;
  /** From 1; grows with each document of the same kind and subject. */
  readonly serial: number;
  readonly issuedMs: number;
  /** The document lets nothing new in from here on. */
  readonly endsMs: number;
  readonly body: DocumentBodies[K];
}

/** A document as it was read; nothing of it is proved. */
export interface UnverifiedDocument<K extends DocumentKind = DocumentKind> extends DocumentContent<K> {
  /** Raw Ed25519: the key that claims to have signed. */
  readonly signer: Uint8Array;
  /** What the signature is over. */
  readonly statement: Uint8Array;
  readonly signature: Uint8Array;
  /** SHA-256 of the signed content in hex: two documents are the same if this is. */
  readonly sha256: string;
}

/**
 * Signs with an owner's Ed25519 key (PKCS#8 PEM) and encodes:
 *
 * ```
 * u32 (big endian)  length of the content
 * content           UTF-8, JSON with sorted keys and no space: version, kind, clusterId, epoch, serial, issuedMs,
 *                   endsMs, signer (raw key, base64), body
 * 64 bytes          Ed25519 over "cluster/authority/document/v1\0", the length and the content
 * ```
 *
 * One content has one encoding: a reader encodes again what it read and refuses other bytes.
 * @throws AuthorityError `owner-document-malformed` for content that no reader would accept
 */
export function signDocument<K extends DocumentKind>(
  content: DocumentContent<K>,
  keyPem: Secret<string>,
): Uint8Array {
  const raw = ed25519PubKeyFrom(keyPem);
  if (raw === undefined) throw new TypeError('an owner key is an Ed25519 key');
  const { kind, clusterId, epoch, serial, issuedMs, endsMs, body } = content;
  const signer = Buffer.from(raw).toString('base64');
  const text = canonicalJson({ version: 1, kind, clusterId, epoch, serial, issuedMs, endsMs, signer, body });
  const payload = lengthPrefixed(text);
  const bytes = Buffer.concat([payload, signEd25519(keyPem, statementOf(payload))]);
  parseDocument(bytes);
  return new Uint8Array(bytes);
}

/**
 * Reads a document without verifying who signed it. `bytes` are an attacker's.
 * @throws AuthorityError `owner-document-malformed`, `owner-document-trailing-bytes`, `owner-document-kind-unknown`
 */
export function parseDocument(bytes: Uint8Array): UnverifiedDocument {
  if (bytes.length > MAX_DOCUMENT_BYTES) throw malformed(`${bytes.length} bytes`);
  const buffer = Buffer.from(bytes);
  const payloadEnd = buffer.length < LENGTH_BYTES ? Infinity : LENGTH_BYTES + buffer.readUInt32BE(0);
  const end = payloadEnd + ED25519_SIGNATURE_BYTES;
  if (buffer.length < end) throw malformed(`it ends after ${bytes.length} bytes`);
  if (buffer.length > end)
    throw new OwnerDocumentError(
      'owner-document-trailing-bytes',
      `reading a document: ${buffer.length - end} bytes more`,
    );
  const payload = buffer.subarray(0, payloadEnd);
  return {
    ...contentFrom(payload.subarray(LENGTH_BYTES)),
    statement: statementOf(payload),
    signature: new Uint8Array(buffer.subarray(payloadEnd)),
    sha256: createHash('sha256').update(payload).digest('hex'),
  };
}

function contentFrom(content: Uint8Array): DocumentContent<DocumentKind> & { readonly signer: Uint8Array } {
  const parsed = headShape.safeParse(jsonFrom(content));
  if (!parsed.success) throw malformed(z.prettifyError(parsed.error), parsed.error);
  const { kind: named, signer, body: unknownBody, version: _, ...head } = parsed.data;
  const kind = DOCUMENT_KINDS.find((each) => each === named);
  if (kind === undefined)
    throw new OwnerDocumentError(
      'owner-document-kind-unknown',
      `reading a document: kind ${JSON.stringify(named.slice(0, 40))}`,
    );
  const body = bodyShapes[kind].safeParse(unknownBody);
  if (!body.success) throw malformed(`${kind}: ${z.prettifyError(body.error)}`, body.error);
  if (head.endsMs <= head.issuedMs) throw malformed('it ends before it begins');
  if (!Buffer.from(canonicalJson(parsed.data), 'utf8').equals(content)) throw malformed('another encoding');
  return { ...head, kind, signer: new Uint8Array(Buffer.from(signer, 'base64')), body: body.data };
}

function jsonFrom(content: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content));
  } catch (error) {
    throw malformed('it is no JSON', error);
  }
}

function statementOf(payload: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), payload]);
}

function malformed(why: string, cause?: unknown): OwnerDocumentError {
  return new OwnerDocumentError('owner-document-malformed', `reading a document: ${why}`, { cause });
}
