import { createHash } from 'node:crypto';
import { z } from 'zod';
import { describeShape } from '../errors/index.ts';
import { canonicalJson } from '../config/index.ts';
import { ED25519_SIGNATURE_BYTES, ed25519PubKeyFrom, lengthPrefixed, signEd25519 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { documentKey } from '../records/index.ts';
import {
  bodyShapes,
  DOCUMENT_KINDS,
  rawKey,
  subjectOf,
  type DocumentBodies,
  type DocumentKind,
} from './document-kinds.ts';
import { OwnerDocumentError } from './errors.ts';

/** Size limit of a document, its signature included. */
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

/** The content of a document before it is signed. */
export interface DocumentContent<K extends DocumentKind> {
  readonly kind: K;
  readonly clusterId: string;
  readonly epoch: number;
  /** Starts at 1 and grows with each document of the same kind and subject. */
  readonly serial: number;
  readonly issuedMs: number;
  /** From this time on the document allows nothing new. */
  readonly endsMs: number;
  readonly body: DocumentBodies[K];
}

/** A parsed document whose signature has not been verified. */
export interface UnverifiedDocument<K extends DocumentKind = DocumentKind> extends DocumentContent<K> {
  /** Raw Ed25519: the key that the document claims to be signed with. */
  readonly signer: Uint8Array;
  /** The bytes that the signature covers. */
  readonly statement: Uint8Array;
  readonly signature: Uint8Array;
  /** SHA-256 of the signed content in hex; identifies the document. */
  readonly sha256: string;
}

/**
 * Signs a document with an owner's Ed25519 key (PKCS#8 PEM). Its encoding:
 *
 * ```
 * u32 (big endian)  length of the content
 * content           UTF-8, JSON with sorted keys and no space: version, kind, clusterId, epoch, serial, issuedMs,
 *                   endsMs, signer (raw key, base64), body
 * 64 bytes          Ed25519 over "cluster/authority/document/v1\0", the length and the content
 * ```
 *
 * Each content has exactly one encoding: `parseDocument()` encodes what it read again and refuses other bytes.
 * @throws OwnerDocumentError `owner-document-malformed` for content that `parseDocument()` would refuse
 */
export function signDocument<K extends DocumentKind>(
  content: DocumentContent<K>,
  keyPem: Secret<string>,
): Uint8Array {
  const raw = ed25519PubKeyFrom(keyPem);
  if (raw === undefined) throw new TypeError('the owner key is not an Ed25519 key');
  const { kind, clusterId, epoch, serial, issuedMs, endsMs, body } = content;
  const signer = Buffer.from(raw).toString('base64');
  const text = canonicalJson({ version: 1, kind, clusterId, epoch, serial, issuedMs, endsMs, signer, body });
  const payload = lengthPrefixed(text);
  const bytes = Buffer.concat([payload, signEd25519(keyPem, statementOf(payload))]);
  parseDocument(bytes);
  return new Uint8Array(bytes);
}

/**
 * Parses a document without verifying its signature. `bytes` may come from an attacker.
 * @throws OwnerDocumentError `owner-document-malformed`, `owner-document-trailing-bytes`, `owner-document-kind-unknown`
 */
export function parseDocument(bytes: Uint8Array): UnverifiedDocument {
  if (bytes.length > MAX_DOCUMENT_BYTES)
    throw malformed(`${bytes.length} bytes, at most ${MAX_DOCUMENT_BYTES} allowed`);
  const buffer = Buffer.from(bytes);
  const payloadEnd = buffer.length < LENGTH_BYTES ? Infinity : LENGTH_BYTES + buffer.readUInt32BE(0);
  const end = payloadEnd + ED25519_SIGNATURE_BYTES;
  if (buffer.length < end) throw malformed(`truncated after ${bytes.length} bytes`);
  if (buffer.length > end)
    throw new OwnerDocumentError(
      'owner-document-trailing-bytes',
      `reading an owner-signed document: ${buffer.length - end} bytes after its signature`,
    );
  const payload = buffer.subarray(0, payloadEnd);
  return {
    ...contentFrom(payload.subarray(LENGTH_BYTES)),
    statement: statementOf(payload),
    signature: new Uint8Array(buffer.subarray(payloadEnd)),
    sha256: createHash('sha256').update(payload).digest('hex'),
  };
}

/**
 * The etcd key of a document: by kind and subject. Each set of owners is kept under its serial, because a verifier follows
 * all of them (`resolveOwners()`).
 */
export function recordKeyOf(document: UnverifiedDocument): string {
  const { kind, serial } = document;
  return documentKey(kind, kind === 'owners' ? serial : subjectOf(document));
}

function contentFrom(content: Uint8Array): DocumentContent<DocumentKind> & { readonly signer: Uint8Array } {
  const parsed = headShape.safeParse(jsonFrom(content));
  if (!parsed.success) throw malformed(describeShape(parsed.error));
  const { kind: named, signer, body: unknownBody, version: _, ...head } = parsed.data;
  const kind = DOCUMENT_KINDS.find((each) => each === named);
  if (kind === undefined)
    throw new OwnerDocumentError(
      'owner-document-kind-unknown',
      `reading an owner-signed document: unknown kind ${JSON.stringify(named.slice(0, 40))}`,
    );
  const body = bodyShapes[kind].safeParse(unknownBody);
  if (!body.success) throw malformed(`${kind}: ${describeShape(body.error)}`);
  if (head.endsMs <= head.issuedMs) throw malformed('its end date is before its issue date');
  if (!Buffer.from(canonicalJson(parsed.data), 'utf8').equals(content))
    throw malformed('not in the canonical encoding');
  return { ...head, kind, signer: new Uint8Array(Buffer.from(signer, 'base64')), body: body.data };
}

function jsonFrom(content: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content));
  } catch (error) {
    throw malformed('not JSON', error);
  }
}

function statementOf(payload: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), payload]);
}

function malformed(why: string, cause?: unknown): OwnerDocumentError {
  return new OwnerDocumentError('owner-document-malformed', `reading an owner-signed document: ${why}`, {
    cause,
  });
}
