/**
 * Owner documents (internal/ownerdocument) that commands sign with the caller's key. A caller who is not an owner signs
 * nothing, and the curator reports the missing document. An operator can ask an owner for it with a file.
 *
 * ```
 * cluster COMMAND ─▶ openChangeSigner: documents on record ─▶ signAll(proposals) ─▶ sent with the change
 *                      owner: the next serial │ operator: --request-signature FILE ─▶ cluster sign FILE ─▶ --signed FILE.signed
 * ```
 */
export { openChangeSigner, type ChangeSigner } from './change-signer.ts';
export { openSigner } from './document-signer.ts';
export {
  grantForJoin,
  grantForNode,
  grantSubjectOf,
  isControlPlaneGranted,
  isControlPlaneWithdrawn,
  rolesFromWire,
  withdrawalFor,
} from './grants.ts';
export {
  addKnownMachines,
  addPinnedMachines,
  joinKnown,
  readKnownMachines,
  readOtherKnownMachines,
  saveRemovedMachines,
} from './known-machines.ts';
export { requireKnownMaker } from './known-maker.ts';
export { signedOperators } from './operators.ts';
export type { Proposal } from './proposal.ts';
export { saveSubmittedDocuments } from './seen-documents.ts';
export { runSignRequest } from './sign-request.ts';
export type { SignedRecords } from './signed-records.ts';
export { runSign } from './sign-records.ts';
