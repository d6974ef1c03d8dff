import { verify } from 'node:crypto';
import { ownerPubKeyFromRaw } from '../attestation/ownerkey/index.ts';
import type { DocumentBodies, DocumentKind } from './bodies.ts';
import { parseDocument, type UnverifiedDocument } from './owner-document.ts';
import { OwnerDocumentError } from './errors.ts';

/** The highest document of one kind and subject that was accepted so far. */
export interface Floor {
  readonly serial: number;
  /** Of the document with that serial; absent where only the number is known. */
  readonly sha256?: string | undefined;
}

/** What the verifier knows from elsewhere than etcd: its provisioning, its configuration, its own disk. */
export interface DocumentTrust {
  /** Raw Ed25519 keys of the owners; never empty in a cluster that trusts anything. */
  readonly owners: readonly Uint8Array[];
  readonly clusterId: string;
  /** Documents of an earlier epoch are refused. */
  readonly epoch: number;
  readonly nowMs: number;
}

export interface ExpectedDocument<K extends DocumentKind> extends DocumentTrust {
  readonly kind: K;
  /** undefined: none was accepted so far. */
  readonly floor: Floor | undefined;
  /**
   * For what runs already (a renewal, a rotation that was begun): an end date ends nothing. Never for anything that lets
   * somebody or something new in.
   */
  readonly acceptExpired?: boolean;
}

/** A document that an owner of the cluster signed. */
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
 * The one verifier of owner-signed documents: curator, join service, signer, agent and CLI call this and nothing else.
 * `bytes` may be anybody's. The caller compares the body with what it is about to do, and keeps `serial` and `sha256` as
 * its new floor.
 * @throws AuthorityError with a code per reason
 */
export function verifyDocument<K extends DocumentKind>(
  bytes: Uint8Array,
  expected: ExpectedDocument<K>,
): VerifiedDocument<K> {
  const document = parseDocument(bytes);
  if (!isOfKind(document, expected.kind))
    throw refused('owner-document-kind-mismatch', document, `expected is ${expected.kind}`);
  verifySignature(document, expected.owners);
  if (document.clusterId !== expected.clusterId)
    throw refused('owner-document-cluster-mismatch', document, `it is for cluster ${document.clusterId}`);
  if (document.epoch < expected.epoch)
    throw refused(
      'owner-document-epoch-old',
      document,
      `epoch ${document.epoch}, the cluster is in ${expected.epoch}`,
    );
  verifySerial(document, expected.floor);
  if (document.endsMs <= expected.nowMs && expected.acceptExpired !== true)
    throw refused('owner-document-expired', document, `on ${new Date(document.endsMs).toISOString()}`);
  const { kind, epoch, serial, issuedMs, endsMs, signer, sha256, body } = document;
  return { kind, epoch, serial, issuedMs, endsMs, signer, sha256, body };
}

/** The floor that a verified document leaves behind. */
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
    throw refused('owner-document-signature-invalid', document, 'the signature is not over this content');
}

function verifySerial(document: UnverifiedDocument, floor: Floor | undefined): void {
  if (floor === undefined || document.serial > floor.serial) return;
  const known = `serial ${document.serial}, accepted was ${floor.serial}`;
  if (document.serial < floor.serial) throw refused('owner-document-serial-old', document, known);
  if (floor.sha256 !== undefined && floor.sha256 !== document.sha256)
    throw refused('owner-document-serial-conflict', document, `${known} with other content`);
}

function isOfKind<K extends DocumentKind>(
  document: UnverifiedDocument,
  kind: K,
): document is UnverifiedDocument<K> {
  return document.kind === kind;
}

function refused(
  code: ConstructorParameters<typeof OwnerDocumentError>[0],
  { kind, serial }: UnverifiedDocument,
  why: string,
): OwnerDocumentError {
  return new OwnerDocumentError(code, `verifying ${kind} document ${serial}: ${why}`, {
    details: { kind, serial },
  });
}
