/**
 * Attested TLS: before one byte of gRPC flows, both ends have proved, freshly and for this very session, which
 * machine and software they are. The protocol is aTLS/1, specified in docs/atls.md.
 *
 *     TCP ─▶ tls ─▶ driver ◀─turns─▶ handshake (pure) ─▶ TLSSocket + AttestedPeer ─▶ rpc
 *             │        └─ work: issuers, validators              └─ `call.peer` of every handler
 *             └─ keys: P-256, this process only
 *
 * `atlsServerUpgrade` and `atlsClientUpgrade` are what `internal/rpc` plugs into its server and channels. Evidence
 * ages: give `RpcServer` a `maxConnectionAgeMs`, and each connection proves itself anew.
 */
export { PENDING_CONNECTION_LIMITS, type PendingConnectionLimits } from './pending-connection-limit.ts';
export { INIT_CONTEXT } from './contexts.ts';
export { AtlsError, atlsErrors, type AtlsErrorCode } from './errors.ts';
export { FixedKeys, RotatingKeys, type TlsKeySource } from './tls-keys.ts';
export type { AttestedPeer, UnattestedPeer } from './peer.ts';
export {
  REJECT_ALL_RULES,
  type MutualTrust,
  type OneWayAcceptTrust,
  type OneWayShowTrust,
  type EvidenceRules,
  type Trust,
} from './trust.ts';
export {
  ATLS_TIMERS,
  atlsClientUpgrade,
  atlsServerUpgrade,
  type AtlsOptions,
  type AtlsServerOptions,
  type AtlsTimers,
  type VerifyingTrust,
} from './upgrade.ts';
