/**
 * Domain layer: keys, secrets that are derived from keys, and the statements that keys sign. Certificates are in
 * `internal/pki`.
 */
export { canonicalJson } from './canonical-json.ts';
export { deriveKey, type KeyContext, type MasterSecret } from './derive-key.ts';
export {
  diskShareAnswer,
  diskShareEvidenceBinding,
  encodeDiskShareStatement,
  type DiskShareEnvelope,
  type DiskShareStatement,
} from './disk-share-statement.ts';
export {
  ED25519_KEY_BYTES,
  ED25519_SIGNATURE_BYTES,
  ED25519_SPKI_BYTES,
  ed25519KeyFromRaw,
  ed25519PubKeyFrom,
  ed25519SpkiFromRaw,
  generateEd25519Key,
  isSignedByEd25519Key,
  isSignedByRawEd25519Key,
  isSmallOrderEd25519Key,
  rawFromEd25519Key,
  rawFromEd25519Spki,
  signEd25519,
} from './ed25519.ts';
export { joinServerStatement, machineKeyStatement } from './join-statements.ts';
export { labeledStatement, lengthPrefixed, u32, u64 } from './length-prefix.ts';
export {
  certificateSha256,
  isVouchedOwnerKey,
  kubeconfigStatement,
  MAX_VOUCHERS,
  ownershipStatement,
  resetStatement,
  diskRotationStatement,
  voucherStatement,
  type OwnerVoucher,
} from './owner-statements.ts';
export {
  MAX_SPKI_BYTES,
  P256_ORDER,
  P256_SPKI_BYTES,
  P256_SPKI_PREFIX,
  p256KeyFromPoint,
  P384_ORDER,
} from './p256.ts';
export { seal, unseal } from './seal.ts';
export type { Sealed } from './sealed.ts';
export { sealV1 } from './sealed-v1.ts';
export { selfSignedCertificate } from './self-signed.ts';
export { loadX509, type X509Library } from './x509-library.ts';
export {
  encodeTicketStatement,
  ticketEvidenceBinding,
  statementId,
  type TicketStatement,
} from './ticket-statement.ts';
export { rawX25519, x25519PrivateKey, x25519PublicKey } from './x25519.ts';
