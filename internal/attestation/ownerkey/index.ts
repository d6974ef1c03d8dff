/**
 * The evidence of an operator: an Ed25519 signature of the owner key over the binding of the session. It identifies the
 * caller and says nothing about machine or software. A machine accepts only the owners that it was provisioned with.
 *
 *   cluster CLI: OwnerKeyIssuer ── version, public key, signature(binding) ──▶ machine: OwnerKeyValidator
 */
export { OwnerKeyIssuer, OwnerKeyValidator } from './owner-key.ts';
export { ownerPubKeyFromRaw, rawFromOwnerKey } from './pub-key.ts';
