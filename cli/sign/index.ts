/**
 * What an owner signs while commands run: the documents that give control-plane authority (internal/ownerdocument). The key
 * is the one that the command asks with; whoever is no owner signs nothing, and the curator says what is missing.
 *
 * ```
 * cluster COMMAND ─▶ openSigner: documents on record ─▶ sign(kind, body): the next serial ─▶ sent with the change
 * ```
 */
export { openSigner, type DocumentSigner } from './document-signer.ts';
export { grantFor, grantForJoin, grantForNode, rolesFromWire } from './grants.ts';
export { signedOperators } from './operators.ts';
export { policyFor } from './policy.ts';
export { runSign } from './sign-records.ts';
