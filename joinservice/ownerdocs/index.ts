/**
 * What owners have signed, as the join service, the curator and the signer see it. The owners come from this program's
 * configuration, which root writes; etcd has the documents, and each is verified whenever it is read.
 *
 * ```
 * ownerKeys (configuration) ─▶ Authority ◀─ documents/ (etcd)
 *                                 ├─ newest(kind, subject)      before something is done
 *                                 └─ submission(documents)      before something is stored
 * ```
 */
export { OwnerDocuments, type OwnerDocumentsPorts } from './owner-documents.ts';
export {
  gainsControlPlane,
  isGranted,
  isListedAs,
  grantSubjectOf,
  rolesOfEntry,
  type GrantSubject,
} from './control-plane-grants.ts';
export {
  keyIdentityOf,
  planRemoval,
  readRemovals,
  removedIdentities,
  type RemovalEntry,
} from './removals.ts';
export { documentBytes, sha256Of } from './stored-documents.ts';
export { Submission } from './submission.ts';
