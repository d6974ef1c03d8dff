import type { Clock } from '../../internal/clock/index.ts';
import { verifyNode } from '../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade, type Client } from '../../internal/rpc/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Membership } from '../enrolment/index.ts';

/** A connection to one curator of this node's cluster, as this node. */
export interface CuratorConnection extends Disposable {
  readonly endpoint: string;
  readonly client: Client<typeof Curator>;
}

/** Opens connections to curators. The server proves with its certificate that it is a node of the same cluster. */
export interface CuratorDialer {
  dial(membership: Membership, attempt: number): CuratorConnection;
}

/**
 * Dials over mTLS: the curator beside this node first, then the others of the directory in turn, so that a worker that
 * is started again after a failure comes to another one.
 */
export function createCuratorDialer(options: {
  readonly keyPem: Secret<string>;
  readonly clock: Clock;
  readonly port: number;
}): CuratorDialer {
  return {
    dial: (membership, attempt) => {
      const endpoint = chooseCurator(membership, attempt, options.port);
      const trust = {
        caPem: membership.clusterCaPem,
        clusterId: membership.clusterId,
        nowMs: () => options.clock.nowMs(),
      };
      const identity = { certPem: membership.nodeCertPem, keyPem: options.keyPem };
      const upgrade = tlsClientUpgrade({ identity, accept: (certificate) => verifyNode(certificate, trust) });
      const channel = new RpcChannel({ endpoint, upgrade });
      return {
        endpoint,
        client: createClient(Curator, channel),
        [Symbol.dispose]: () => channel[Symbol.dispose](),
      };
    },
  };
}

export function chooseCurator(membership: Membership, attempt: number, port: number): string {
  const own = membership.directory.filter(({ nodeId }) => nodeId === membership.nodeId);
  const others = membership.directory.filter(({ nodeId }) => nodeId !== membership.nodeId);
  const inOrder = [...own, ...others];
  const { host } = inOrder[attempt % inOrder.length] ?? { host: '127.0.0.1' };
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
