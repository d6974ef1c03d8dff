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
export { Authority, type AuthorityPorts } from './authority.ts';
export { gainsControlPlane, isGranted, isListedAs, placeOf, rolesOfEntry, type Place } from './places.ts';
export {
  keyIdentityOf,
  planRemoval,
  readRemovals,
  removedIdentities,
  type RemovalEntry,
} from './removals.ts';
export { documentIn, sha256Of } from './stored-documents.ts';
export { Submission } from './submission.ts';
