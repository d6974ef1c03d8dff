/**
 * Domain: owner-signed documents, and the one verifier of them. Everything that gives control-plane authority is such a
 * document; every program verifies it before it acts on it, with owners that it knows from elsewhere than etcd
 * (docs/decisions/owner-documents.md).
 *
 * ```
 * CLI: signDocument ──▶ curator: verifyDocument, stores the bytes ──▶ join service, signer, agent: verifyDocument
 *                                                                     with owners from provisioning (followOwners)
 * ```
 */
export { DOCUMENT_KINDS, MAX_OWNERS, subjectOf, type DocumentBodies, type DocumentKind } from './bodies.ts';
export {
  MAX_DOCUMENT_BYTES,
  parseDocument,
  signDocument,
  type DocumentContent,
  type UnverifiedDocument,
} from './owner-document.ts';
export { OwnerDocumentError, ownerDocumentErrors, type OwnerDocumentErrorCode } from './errors.ts';
export { DOCUMENT_LIFETIMES_MS } from './lifetimes.ts';
export { resolveOwners, type OwnerSet } from './owners.ts';
export { recordKeyOf } from './record-key.ts';
export {
  floorOf,
  verifyDocument,
  type DocumentTrust,
  type ExpectedDocument,
  type Floor,
  type VerifiedDocument,
} from './verify-document.ts';
