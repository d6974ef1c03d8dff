import { combine, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { APILB_UNIT, serveBalancer, upstreamsOf } from '../kubernetes/index.ts';
import { serveDirectory } from './serve-directory.ts';
import type { ClusterSettings } from './values.ts';

export interface BalancerOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly clusterSettings: Readable<ClusterSettings | undefined>;
  };
  readonly ports: { readonly files: FilePort; readonly units: UnitPort };
}

/** An operator's own balancer needs none beside it. */
export function planBalancer({
  membership,
  settings,
}: {
  readonly membership: Membership | undefined;
  readonly settings: ClusterSettings | undefined;
}): Plan<Membership> {
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (settings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  if (settings.apiEndpoint !== undefined)
    return { kind: 'stop', why: `idle: the API servers are behind ${settings.apiEndpoint}` };
  return { kind: 'start', config: membership };
}

/** Every member has a balancer for the API servers: what points at it never has to be rewritten. */
export function balancerWorker({ reads, ports }: BalancerOptions): Runnable {
  return launcher({
    input: combine({ membership: reads.clusterMembership, settings: reads.clusterSettings }),
    plan: planBalancer,
    retire: ({ signal }) => ports.units.stop(APILB_UNIT, signal),
    start: (scope, membership) =>
      serveDirectory(scope, {
        directory: reads.clusterDirectory,
        membership,
        serve: (known, signal) => serveBalancer(ports, upstreamsOf(known, membership.nodeId), signal),
      }),
  });
}
