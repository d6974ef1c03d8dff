/**
 * Owner documents (internal/ownerdocument) that commands sign with the caller's key. A caller who is not an owner signs
 * nothing, and the curator reports the missing document.
 *
 * ```
 * cluster COMMAND ─▶ openSigner: documents on record ─▶ sign(kind, body): the next serial ─▶ sent with the change
 * ```
 */
export { openSigner, policyFor, type DocumentSigner } from './document-signer.ts';
export {
  grantFor,
  grantForJoin,
  grantForNode,
  grantSubjectOf,
  isControlPlaneGranted,
  isControlPlaneWithdrawn,
  rolesFromWire,
  withdrawalFor,
} from './grants.ts';
export { signErrors } from './errors.ts';
export { requireKnownMaker } from './known-maker.ts';
export { signedOperators } from './operators.ts';
export { runSign } from './sign-records.ts';
