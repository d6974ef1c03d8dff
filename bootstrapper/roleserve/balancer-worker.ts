import { follow, map, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { directoryOf, type ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { serveBalancer, upstreamsOf } from '../kubernetes/index.ts';
import { planRoleFetch } from './rolefetch-worker.ts';

export interface BalancerOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
  };
  readonly ports: { readonly files: FilePort; readonly units: UnitPort };
}

/** Every member has a balancer for the API servers: what points at it never has to be rewritten. */
export function balancerWorker({ reads, ports }: BalancerOptions): Runnable {
  return launcher({
    input: map(reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planRoleFetch(membership),
    start: async (scope, membership) => {
      const now = reads.clusterDirectory.peek();
      const known = (now.set ? now.value : undefined) ?? directoryOf(membership);
      await serveBalancer(ports, upstreamsOf(known, membership.nodeId), scope.signal);
      scope.run('follow', (child) => followDirectory(reads.clusterDirectory, membership, ports, child));
    },
  });
}

async function followDirectory(
  directory: BalancerOptions['reads']['clusterDirectory'],
  { nodeId }: Membership,
  ports: BalancerOptions['ports'],
  scope: Scope,
): Promise<void> {
  scope.healthy();
  for await (const now of follow(directory, scope.signal))
    if (now !== undefined) await serveBalancer(ports, upstreamsOf(now, nodeId), scope.signal);
}
