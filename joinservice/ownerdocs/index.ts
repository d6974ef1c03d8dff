/**
 * Owner documents, as the join service, the curator and the signer use them. The owners come from the configuration of the
 * program, which root writes; the documents come from etcd, and each is verified whenever it is read.
 *
 * ```
 * ownerKeys (configuration) ─▶ OwnerDocuments ◀─ documents/ (etcd)
 *                                 ├─ newest(kind, subject)      before a change is made
 *                                 └─ submission(documents)      before documents are stored
 * ```
 */
export { documentForMachines, ownersForMachines } from './documents-for-machines.ts';
export { OwnerDocuments } from './owner-documents.ts';
export {
  gainsControlPlane,
  isGranted,
  isListedAs,
  grantSubjectOf,
  rolesOfEntry,
} from './control-plane-grants.ts';
export { documentBytes, ownersFrom, sha256Of } from './stored-documents.ts';
export { Submission } from './submission.ts';
