/**
 * gRPC clients and servers whose connections are authenticated before any gRPC byte; the only user of grpc-js.
 *
 * ```
 * generated contract ─ createClient / implement ─ RpcChannel / RpcServer ─ Upgrade (TLS, attested TLS, local) ─ socket
 * ```
 * An `Upgrade` turns a TCP or Unix socket into one whose peer has proved its identity. A server that untrusted
 * peers can reach limits the connections whose peer has not proved its identity yet (`ConnectionLimiter`).
 */
export { RpcChannel } from './channel.ts';
export { bindClient, createClient, type BoundClient, type Client } from './client.ts';
export { RemoteError, reportedError, RpcError } from './errors.ts';
export { FairQueue } from './fair-queue.ts';
export { relayedPathOf, sourcePathOf, type SourcePath } from './source-path.ts';
export {
  implement,
  RpcServer,
  type Call,
  type Handlers,
  type Implementation,
  type RpcServerOptions,
} from './server.ts';
export { isListening, probeTcp } from './is-listening.ts';
export { localUpgrade, type LocalPeer } from './local-upgrade.ts';
export {
  fingerprintOf,
  tls13Context,
  tlsClientUpgrade,
  tlsServerUpgrade,
  type AcceptPeer,
  type TlsIdentity,
} from './tls-upgrade.ts';
export type { Upgrade, Upgraded } from './upgrade.ts';
