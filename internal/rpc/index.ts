/**
 * Port: gRPC. Generated contracts on one side, TCP on the other; between them an upgrade that lets each connection
 * prove who is at its ends before one byte of gRPC flows. The only door to grpc-js.
 */
export { RpcChannel, type ChannelOptions } from './channel.ts';
export { createClient, type CallOptions, type Client } from './client.ts';
export { RemoteError, RpcError, rpcErrors, type Disclosure, type RpcErrorCode } from './errors.ts';
export { FairQueue } from './fair-queue.ts';
export { sourcePathOf } from './source-path.ts';
export {
  implement,
  RpcServer,
  type Call,
  type Handlers,
  type Implementation,
  type RpcServerOptions,
} from './server.ts';
export { localUpgrade, type LocalPeer } from './local-upgrade.ts';
export {
  fingerprintOf,
  tlsClientUpgrade,
  tlsServerUpgrade,
  type AcceptPeer,
  type TlsIdentity,
  type TlsUpgradeOptions,
} from './tls-upgrade.ts';
export type { Upgrade, Upgraded } from './upgrade.ts';
