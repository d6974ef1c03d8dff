/** Domain: keys, what is derived from them and what is signed with them. Certificates are in `internal/pki`. */
export { deriveKey, type KeyContext, type MasterSecret } from './derive-key.ts';
export {
  isSignedByEd25519Key,
  joinServerStatement,
  kubeconfigStatement,
  machineKeyStatement,
} from './join-statements.ts';
export { certificateSha256, ownershipStatement } from './ownership.ts';
export { voucherStatement, type OwnerVoucher } from './owner-voucher.ts';
export { resetStatement } from './reset-order.ts';
export { ed25519PubKeyFrom, generateEd25519Key, signEd25519 } from './private-key.ts';
export { seal, unseal, type SealContext, type Sealed } from './seal.ts';
export {
  encodeTicketStatement,
  ticketEvidenceBinding,
  ticketStatementId,
  type TicketStatement,
} from './ticket-statement.ts';
export { selfSignedCertificate } from './self-signed.ts';
