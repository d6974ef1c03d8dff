/**
 * The operator's own kind of evidence: an Ed25519 signature of the owner key over the session's binding. It proves
 * who calls, never which machine or software; a machine that accepts it names the owners it was provisioned with.
 *
 *   cluster CLI: OwnerKeyIssuer ── version, public key, signature(binding) ──▶ machine: OwnerKeyValidator
 */
export { OwnerKeyError, ownerKeyErrors, type OwnerKeyErrorCode } from './errors.ts';
export { OwnerKeyIssuer, OwnerKeyValidator } from './owner-key.ts';
export { ownerPubKeyFromRaw, rawFromOwnerKey } from './pub-key.ts';
