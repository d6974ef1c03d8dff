/**
 * Attested TLS: before the first byte of gRPC, both ends prove for this session which machine and software they are. The
 * protocol is aTLS/1, specified in docs/atls.md.
 *
 *     TCP ─▶ tls ─▶ driver ◀─steps─▶ handshake (pure) ─▶ TLSSocket + AttestedPeer ─▶ rpc
 *             │        └─ connection-attestation: issuers, validators   └─ `call.peer` of every handler
 *             └─ tls-keys: P-256, in memory only
 *
 * `internal/rpc` uses `atlsServerUpgrade` and `atlsClientUpgrade` in its server and channels. To limit the age of evidence,
 * give `RpcServer` a `maxConnectionAgeMs`: clients then connect again and attest again.
 */
export { type PendingConnectionLimits } from './pending-connection-limit.ts';
export { INIT_CONTEXT, JOIN_CONTEXT } from './binding.ts';
export { AtlsError } from './errors.ts';
export { RotatingKeys, type TlsKeySource } from './tls-keys.ts';
export type { AttestedPeer } from './peer.ts';
export { REJECT_ALL_RULES, type MutualTrust, type EvidenceRules, type Trust } from './trust.ts';
export {
  ATLS_TIMERS,
  atlsClientUpgrade,
  atlsServerUpgrade,
  type AtlsOptions,
  type AtlsTimers,
  type VerifyingTrust,
} from './upgrade.ts';
