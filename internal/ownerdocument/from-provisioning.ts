import type { DocumentKind } from './document-kinds.ts';
import { OwnerDocumentError } from './errors.ts';
import { parseDocument } from './owner-document.ts';
import { resolveOwners } from './owners.ts';
import {
  verifyDocument,
  verifySerial,
  verifySignedAfter,
  type DocumentTrust,
  type Floor,
  type VerifiedDocument,
} from './verify-document.ts';

const MAX_DOCUMENTS = 64;

/** The facts with which a machine verifies documents without the records of its cluster. */
export interface ProvisionedTrust extends Omit<DocumentTrust, 'owners'> {
  /** Raw Ed25519 keys that the machine was provisioned with. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** As in `ExpectedDocument`. */
  readonly acceptExpired?: boolean;
}

/** A document that a current owner signed, and the newest `owners` document that led to this owner. */
interface ProvenDocument<K extends DocumentKind> {
  readonly document: VerifiedDocument<K>;
  /** undefined if the provisioning names the current owners. */
  readonly owners: Floor | undefined;
}

/** The result of a verification that returns its failure instead of throwing it. */
export type DocumentProof<K extends DocumentKind> =
  | ({ readonly kind: 'signed' } & ProvenDocument<K>)
  /** `why`: no document, or an invalid one. */
  | { readonly kind: 'unsigned'; readonly why: string };

/** Like `verifyFromProvisioning()`, but returns why there is no valid document. */
export function proofFromProvisioning<K extends DocumentKind>(
  kind: K,
  documents: readonly Uint8Array[],
  trust: ProvisionedTrust,
): DocumentProof<K> {
  try {
    return { kind: 'signed', ...verifyFromProvisioning(kind, documents, trust) };
  } catch (error) {
    if (error instanceof OwnerDocumentError) return { kind: 'unsigned', why: error.message };
    throw error;
  }
}

/**
 * Verifies the document of a kind that exists once in a cluster. Trusts the owners that the machine was provisioned
 * with, and the owners to whom a chain of `owners` documents leads from them. The caller compares serials with its own
 * floors.
 * @param documents untrusted, in any order; documents of other kinds are ignored
 * @throws OwnerDocumentError also if there is no document of this kind, or more than one
 */
export function verifyFromProvisioning<K extends DocumentKind>(
  kind: K,
  documents: readonly Uint8Array[],
  { ownerKeys, ...trust }: ProvisionedTrust,
): ProvenDocument<K> {
  const doing = `verifying the ${kind} document`;
  if (documents.length > MAX_DOCUMENTS)
    throw new OwnerDocumentError('owner-document-malformed', `${doing}: ${documents.length} documents`);
  const parsed = documents.map((bytes) => ({ bytes, ...parseDocument(bytes) }));
  const chain = parsed.filter((each) => each.kind === 'owners').sort((a, b) => a.serial - b.serial);
  const { keys: owners, floor } = resolveOwners(
    { keys: ownerKeys, floor: undefined },
    chain.map(({ bytes }) => bytes),
    trust,
  );
  const [signed, ...others] = parsed.filter((each) => each.kind === kind);
  if (signed === undefined)
    throw new OwnerDocumentError('owner-document-required', `${doing}: no owner has signed such a document`);
  if (others.length > 0) throw new OwnerDocumentError('owner-document-malformed', `${doing}: more than one`);
  const document = verifyDocument(signed.bytes, { ...trust, owners, kind, floor: undefined });
  return { document, owners: floor };
}

/** The newest document of a kind, and the newest `owners` document, that a machine or a workspace has accepted. */
interface AcceptedDocuments {
  readonly owners: Floor | undefined;
  readonly document: Floor | undefined;
  /** As in `ExpectedDocument`. The document of `document` itself stays valid, so that what it has begun goes on. */
  readonly signedAfterMs?: number | undefined;
}

/**
 * Verifies that a document is not older than the last accepted document, and that the `owners` document behind its
 * signer is not older than the last accepted one. Without the second check, a removed owner could hide the newer
 * `owners` documents from a machine and be accepted as an owner again.
 * @throws OwnerDocumentError `owner-document-serial-old`, `owner-document-serial-conflict`,
 * `owner-document-before-rollback`
 */
export function verifyNotOlder<K extends DocumentKind>(
  { document, owners }: ProvenDocument<K>,
  accepted: AcceptedDocuments,
): void {
  verifySerial(document, accepted.document);
  if (document.sha256 !== accepted.document?.sha256) verifySignedAfter(document, accepted.signedAfterMs);
  if (accepted.owners === undefined) return;
  const { serial = 0, sha256 = '' } = owners ?? {};
  verifySerial({ kind: 'owners', serial, sha256 }, accepted.owners);
}
