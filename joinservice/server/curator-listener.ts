import type { MemberIdentity } from '../../internal/pki/index.ts';
import { RpcServer, type RpcServerOptions } from '../../internal/rpc/index.ts';

/** Authenticated connections; most members keep one open all the time. */
const MAX_CONNECTIONS = 16_384;
/** An agent uses one connection for all calls, an operator one for each command. */
const MAX_CONNECTIONS_OF_ONE = 32;
/** A node has half a dozen streams open, and a few short calls. */
const MAX_CALLS = 128;
/** After an hour a connection is closed gracefully, and its peer authenticates again with its newest certificate. */
const MAX_CONNECTION_AGE_MS = 60 * 60 * 1000;
/**
 * All nodes reconnect at once after the only curator was unavailable for a second. TLS handshakes run on the
 * only thread of this process: thousands of concurrent handshakes would all time out, a few at a time take
 * milliseconds. A client that waits too long retries.
 */
const PENDING = { maxHandshakes: 64, maxWaiting: 4_096, maxWaitMs: 5_000 };

/** The RPC server for members. Its limits keep any single peer from blocking others. */
export function createCuratorServer(
  parts: Pick<RpcServerOptions<MemberIdentity>, 'upgrade' | 'services' | 'clock' | 'log'>,
): RpcServer<MemberIdentity> {
  return new RpcServer<MemberIdentity>({
    ...parts,
    disclose: 'chain',
    maxConnections: MAX_CONNECTIONS,
    pending: PENDING,
    perPeer: {
      nameOf: (peer) => (peer.kind === 'node' ? peer.nodeId : peer.fingerprint),
      maxConnections: MAX_CONNECTIONS_OF_ONE,
    },
    maxCallsPerConnection: MAX_CALLS,
    maxConnectionAgeMs: MAX_CONNECTION_AGE_MS,
  });
}
