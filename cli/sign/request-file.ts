import { z } from 'zod';
import { describeShape } from '../../internal/errors/index.ts';
import { MAX_CONFIG_BYTES } from '../../internal/config/index.ts';
import {
  canonicalJson,
  ed25519PubKeyFrom,
  isSignedByRawEd25519Key,
  labeledStatement,
  signEd25519,
} from '../../internal/crypto/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { bodyShapes, rawKey } from '../../internal/ownerdocument/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { SignError } from './errors.ts';
import type { Proposal } from './proposal.ts';

/** A request has two configurations, whose JSON is escaped, and documents of at most 64 KiB each. */
export const MAX_REQUEST_BYTES = 4 * MAX_CONFIG_BYTES;
const MAX_PROPOSALS = 16;
const MAX_DOCUMENTS = 256;
/** The latest time of a Date. */
const LATEST_MS = 8_640_000_000_000_000;
const LABEL = 'cluster/authority/request/v1\0';

const base64 = z.string().refine((text) => Buffer.from(text, 'base64').toString('base64') === text);
const clusterId = z.string().regex(/^[0-9a-z-]{1,64}$/);
const documents = z.array(base64).max(MAX_DOCUMENTS);

const requestShape = z.strictObject({
  version: z.literal(1),
  clusterId,
  epoch: z.int().positive(),
  requestedMs: z.int().positive().max(LATEST_MS),
  /** The key of the operator who asks: raw Ed25519, base64. */
  requester: rawKey,
  proposals: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('grant'), body: bodyShapes.grant }),
        z.strictObject({ kind: z.literal('readmission'), body: bodyShapes.readmission }),
        z.strictObject({ kind: z.literal('operators'), body: bodyShapes.operators }),
        z.strictObject({ kind: z.literal('policy'), before: z.string(), after: z.string() }),
      ]),
    )
    .min(1)
    .max(MAX_PROPOSALS),
  /** The signed documents that the new ones follow, base64. */
  documents,
});
const signedRequestShape = z.strictObject({ request: requestShape, signature: base64 });
const signedFileShape = z.strictObject({ version: z.literal(1), clusterId, documents: documents.min(1) });

/** What an operator asks an owner to sign. Everything in it is a claim of the operator until an owner has verified it. */
export interface SignatureRequest {
  readonly clusterId: string;
  readonly epoch: number;
  readonly requestedMs: number;
  /** Raw Ed25519. */
  readonly requester: Uint8Array;
  readonly proposals: readonly Proposal[];
  readonly documents: readonly Uint8Array[];
}

/** What an owner has signed for a request. */
export interface SignedFile {
  readonly clusterId: string;
  readonly documents: readonly Uint8Array[];
}

/**
 * A request as a file: one line of canonical JSON, `{request, signature}`. The operator signs the request with their own key, so that
 * the owner learns who asks and that nothing was changed on the way.
 */
export function encodeRequest(
  {
    clusterId: cluster,
    epoch,
    requestedMs,
    proposals,
    documents: known,
  }: Omit<SignatureRequest, 'requester'>,
  keyPem: Secret<string>,
): string {
  const request = {
    ...{ version: 1, clusterId: cluster, epoch, requestedMs, proposals },
    requester: toBase64(ed25519PubKeyFrom(keyPem) ?? new Uint8Array()),
    documents: known.map(toBase64),
  };
  const signature = toBase64(signEd25519(keyPem, statementOf(request)));
  const text = `${canonicalJson({ request, signature })}\n`;
  parseRequest(Buffer.from(text, 'utf8'));
  return text;
}

/**
 * Reads a request, and verifies that the key in it has signed it. Whose key this is, and the documents, are for the caller to verify.
 * @throws SignError `sign-file-malformed`, `sign-request-altered`
 */
export function parseRequest(bytes: Uint8Array): SignatureRequest {
  const { request, signature } = parseFile(signedRequestShape, bytes, 'a request');
  const requester = fromBase64(request.requester);
  if (!isSignedByRawEd25519Key(requester, statementOf(request), fromBase64(signature)))
    throw new SignError('sign-request-altered', 'reading a request: its signature does not match');
  const { version: _, ...content } = request;
  return { ...content, requester, documents: request.documents.map(fromBase64) };
}

/** The documents that an owner has signed, as one line of canonical JSON. */
export function encodeSignedFile({ clusterId: cluster, documents: signed }: SignedFile): string {
  return `${canonicalJson({ version: 1, clusterId: cluster, documents: signed.map(toBase64) })}\n`;
}

/** Reads what an owner has signed. The documents are not verified. @throws SignError `sign-file-malformed` */
export function parseSignedFile(bytes: Uint8Array): SignedFile {
  const { clusterId: cluster, documents: signed } = parseFile(signedFileShape, bytes, 'a signed file');
  return { clusterId: cluster, documents: signed.map(fromBase64) };
}

/** Parses a file that has exactly one encoding. */
function parseFile<T>(shape: z.ZodType<T>, bytes: Uint8Array, what: string): T {
  const fail = (why: string): never => {
    throw new SignError('sign-file-malformed', `reading ${what}: ${why}`);
  };
  if (bytes.length > MAX_REQUEST_BYTES) fail(`${bytes.length} bytes, at most ${MAX_REQUEST_BYTES} allowed`);
  const parsed = shape.safeParse(parseJson(Buffer.from(bytes).toString('utf8')));
  if (!parsed.success) return fail(describeShape(parsed.error));
  const canonical = Buffer.from(`${canonicalJson(parsed.data)}\n`, 'utf8');
  if (!canonical.equals(bytes)) fail('not in the canonical encoding');
  return parsed.data;
}

function statementOf(request: unknown): Uint8Array {
  return labeledStatement(LABEL, canonicalJson(request));
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

function fromBase64(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'));
}
