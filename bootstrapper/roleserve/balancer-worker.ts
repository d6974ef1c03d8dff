import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { combine, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import {
  APILB_UNIT,
  type ApiServerHealth,
  describeUnhealthyServers,
  ensureBalancer,
  orderUpstreams,
} from '../kubernetes/index.ts';
import { followDirectory } from './follow-directory.ts';
import type { ClusterSettings } from './role-values.ts';

/** Inputs and ports of the balancer worker. */
export interface BalancerOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly clusterSettings: Readable<ClusterSettings | undefined>;
  };
  readonly ports: {
    readonly files: FilePort;
    readonly units: UnitPort;
    readonly clock: Clock;
    /** Health of the API servers as the balancer reports it. */
    readonly balancerHealth: (signal: AbortSignal) => Promise<readonly ApiServerHealth[]>;
  };
}

/** Interval at which the agent reads the health of the API servers, which it only shows in the status. */
const READ_MS = 10_000;

/** Every member runs a balancer, unless the operator has a load balancer. Pure. */
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
    return { kind: 'stop', why: `idle: using load balancer ${settings.apiEndpoint}` };
  return { kind: 'start', config: membership };
}

/** Runs the balancer of the API servers, so that local clients always use the same address. */
export function balancerWorker({ reads, ports }: BalancerOptions): Runnable {
  return launcher({
    input: combine({ membership: reads.clusterMembership, settings: reads.clusterSettings }),
    plan: planBalancer,
    tearDown: ({ signal }) => ports.units.stop(APILB_UNIT, signal),
    start: async (scope, membership) => {
      await followDirectory(scope, {
        directory: reads.clusterDirectory,
        membership,
        apply: (known, signal) => ensureBalancer(ports, orderUpstreams(known, membership.nodeId), signal),
      });
      scope.run('upstreams', showUpstreams(ports));
    },
  });
}

/** Shows in the status which API servers are unhealthy, or that the balancer does not respond. */
function showUpstreams({ clock, balancerHealth }: BalancerOptions['ports']): Runnable {
  return async ({ healthy, waiting, signal }) => {
    healthy();
    for (;;) {
      await clock.sleep(READ_MS, signal);
      try {
        waiting(describeUnhealthyServers(await balancerHealth(signal)));
      } catch (error) {
        signal.throwIfAborted();
        waiting(`API server balancer does not respond: ${describeError(error)}`);
      }
    }
  };
}
