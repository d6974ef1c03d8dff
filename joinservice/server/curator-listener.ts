import type { MemberIdentity } from '../../internal/pki/index.ts';
import { RpcServer, type RpcServerOptions } from '../../internal/rpc/index.ts';

/** Members that have proved themselves; each of them holds one, most of them all the time. */
const MAX_CONNECTIONS = 16_384;
/** An agent has one for all of its calls, an operator one for each command. */
const MAX_CONNECTIONS_OF_ONE = 32;
/** A node has half a dozen of them open for good, and a few that end. */
const MAX_CALLS = 128;
/** An hour: then a connection is closed gracefully and its peer proves itself anew, with its newest certificate. */
const MAX_CONNECTION_AGE_MS = 60 * 60 * 1000;
/**
 * All nodes come at once when the only curator has been away for a second. Handshakes are this process' own work, and it
 * has one thread: thousands begun together would all end too late. Few at a time are done in milliseconds; who waits for
 * longer than a client has patience comes again.
 */
const PENDING = { maxHandshakes: 64, maxWaiting: 4_096, maxWaitMs: 5_000 };

/** The port of members: one key, or one stranger, with however many connections and calls keeps nobody else out. */
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
