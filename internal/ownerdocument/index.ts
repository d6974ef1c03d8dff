/**
 * Domain layer: owner-signed documents and their one verifier. Only such a document allows a node to be a control plane
 * or a removed machine to return, and makes a configuration, an operator or another owner trusted. Every program
 * verifies a document before acting on it. It does not take the owners from etcd (docs/decisions/owner-documents.md).
 *
 * ```
 * CLI: signDocument ──▶ curator: verifyDocument, stores the bytes ──▶ join service, signer, agent: verifyDocument
 *                                                                     with owners from provisioning (resolveOwners)
 * ```
 */
export {
  bodyShapes,
  DOCUMENT_LIFETIMES_MS,
  rawKey,
  subjectOf,
  type DocumentBodies,
  type DocumentKind,
} from './document-kinds.ts';
export { OwnerDocumentError } from './errors.ts';
export {
  proofFromProvisioning,
  verifyFromProvisioning,
  verifyNotOlder,
  type DocumentProof,
  type ProvisionedTrust,
} from './from-provisioning.ts';
export { parseDocument, recordKeyOf, signDocument, type DocumentContent } from './owner-document.ts';
export { resolveOwners, type OwnerSet } from './owners.ts';
export {
  firstSerial,
  floorOf,
  verifyDocument,
  type DocumentTrust,
  type Floor,
  type VerifiedDocument,
} from './verify-document.ts';
