import { verify } from 'node:crypto';
import { ownerPubKeyFromRaw } from '../attestation/ownerkey/index.ts';
import type { DocumentBodies, DocumentKind } from './document-kinds.ts';
import { parseDocument, type UnverifiedDocument } from './owner-document.ts';
import { OwnerDocumentError } from './errors.ts';

/** The newest document of one kind and subject that was accepted so far. Older documents are refused. */
export interface Floor {
  readonly serial: number;
  /** SHA-256 of the document with that serial; absent where only the serial is known. */
  readonly sha256?: string | undefined;
}

/** More documents of one kind than owners sign in an epoch, recoveries of the quorum included. */
const SERIALS_PER_EPOCH = 1_000_000;

/**
 * The serial of the first documents of a cluster that was created or restored in this epoch. Workers that stay members of a restored
 * cluster have accepted documents that its backup may not have, and refuse lower serials.
 */
export function firstSerial(epoch: number): number {
  return (epoch - 1) * SERIALS_PER_EPOCH + 1;
}

/** The facts that a verifier takes from its provisioning, its configuration or its own disk, and never from etcd. */
export interface DocumentTrust {
  /** Raw Ed25519 keys of the owners. With an empty list every document is refused. */
  readonly owners: readonly Uint8Array[];
  readonly clusterId: string;
  /** Documents of an earlier epoch are refused. */
  readonly epoch: number;
  readonly nowMs: number;
}

/** The document that the caller needs. */
export interface ExpectedDocument<K extends DocumentKind> extends DocumentTrust {
  readonly kind: K;
  /** The last accepted document; undefined when there was none. */
  readonly floor: Floor | undefined;
  /**
   * Ignores the end date. Only for work that is running already, such as a renewal or a rotation in progress. Never for
   * the admission of a new machine, operator or owner.
   */
  readonly acceptExpired?: boolean;
  /**
   * Documents signed before this time are refused: the verifier found an old copy of its disk at that time, so it may have
   * forgotten newer ones.
   */
  readonly signedAfterMs?: number | undefined;
}

/** A document whose signature by an owner of the cluster was verified. */
export interface VerifiedDocument<K extends DocumentKind> {
  readonly kind: K;
  readonly epoch: number;
  readonly serial: number;
  readonly issuedMs: number;
  readonly endsMs: number;
  /** Raw Ed25519. */
  readonly signer: Uint8Array;
  readonly sha256: string;
  readonly body: DocumentBodies[K];
}

/**
 * The one verifier of owner-signed documents, used by curator, join service, signer, agent and CLI. `bytes` are
 * untrusted. The caller must compare the body with the action that it is about to take, and store `floorOf(document)`
 * as its new floor.
 * @throws OwnerDocumentError with one code for each reason
 */
export function verifyDocument<K extends DocumentKind>(
  bytes: Uint8Array,
  expected: ExpectedDocument<K>,
): VerifiedDocument<K> {
  const document = parseDocument(bytes);
  if (!isOfKind(document, expected.kind))
    throw refused(
      'owner-document-kind-mismatch',
      document,
      `a document of kind ${expected.kind} was expected`,
    );
  verifySignature(document, expected.owners);
  if (document.clusterId !== expected.clusterId)
    throw refused('owner-document-cluster-mismatch', document, `signed for cluster ${document.clusterId}`);
  if (document.epoch < expected.epoch)
    throw refused(
      'owner-document-epoch-old',
      document,
      `signed in epoch ${document.epoch}, the cluster is in epoch ${expected.epoch}`,
    );
  verifySerial(document, expected.floor);
  verifySignedAfter(document, expected.signedAfterMs);
  if (document.endsMs <= expected.nowMs && expected.acceptExpired !== true)
    throw refused(
      'owner-document-expired',
      document,
      `expired on ${new Date(document.endsMs).toISOString()}`,
    );
  const { kind, epoch, serial, issuedMs, endsMs, signer, sha256, body } = document;
  return { kind, epoch, serial, issuedMs, endsMs, signer, sha256, body };
}

/** The floor for documents after this one. */
export function floorOf(document: Pick<VerifiedDocument<DocumentKind>, 'serial' | 'sha256'>): Floor {
  return { serial: document.serial, sha256: document.sha256 };
}

function verifySignature(document: UnverifiedDocument, owners: readonly Uint8Array[]): void {
  const owner = owners.find((key) => Buffer.compare(key, document.signer) === 0);
  if (owner === undefined) {
    const signer = Buffer.from(document.signer).toString('base64');
    throw refused('owner-document-signer-unknown', document, `signed by ${signer}`);
  }
  if (!verify(undefined, document.statement, ownerPubKeyFromRaw(owner), document.signature))
    throw refused('owner-document-signature-invalid', document, 'the signature does not match the content');
}

/**
 * Refuses a document that is older than the newest accepted document. Also refuses another document with the same
 * serial as the newest accepted document.
 * @throws OwnerDocumentError `owner-document-serial-old`, `owner-document-serial-conflict`
 */
export function verifySerial(
  document: Pick<UnverifiedDocument, 'kind' | 'serial' | 'sha256'>,
  floor: Floor | undefined,
): void {
  if (floor === undefined || document.serial > floor.serial) return;
  const known = `serial ${document.serial}, serial ${floor.serial} was accepted before`;
  if (document.serial < floor.serial) throw refused('owner-document-serial-old', document, known);
  if (floor.sha256 !== undefined && floor.sha256 !== document.sha256)
    throw refused('owner-document-serial-conflict', document, `${known} with other content`);
}

/**
 * Refuses a document that an owner signed before the verifier found an old copy of its disk.
 * @throws OwnerDocumentError `owner-document-before-rollback`
 */
export function verifySignedAfter(
  document: Pick<UnverifiedDocument, 'kind' | 'serial' | 'issuedMs'>,
  signedAfterMs: number | undefined,
): void {
  if (signedAfterMs === undefined || document.issuedMs >= signedAfterMs) return;
  const [signed, found] = [document.issuedMs, signedAfterMs].map((ms) => new Date(ms).toISOString());
  throw refused(
    'owner-document-before-rollback',
    document,
    `signed on ${signed}, this machine needs one signed after ${found}`,
  );
}

function isOfKind<K extends DocumentKind>(
  document: UnverifiedDocument,
  kind: K,
): document is UnverifiedDocument<K> {
  return document.kind === kind;
}

function refused(
  code: ConstructorParameters<typeof OwnerDocumentError>[0],
  { kind, serial }: Pick<UnverifiedDocument, 'kind' | 'serial'>,
  why: string,
): OwnerDocumentError {
  return new OwnerDocumentError(code, `verifying ${kind} document with serial ${serial}: ${why}`, {
    details: { kind, serial },
  });
}
