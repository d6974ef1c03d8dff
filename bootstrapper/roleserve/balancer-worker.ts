import { describeError } from '../../internal/errors/index.ts';
import type { HostPort } from '../../internal/endpoint/index.ts';
import { combine } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import type { Membership } from '../membership/index.ts';
import {
  APILB_UNIT,
  type ApiServerHealth,
  describeUnhealthyServers,
  ensureBalancer,
  orderUpstreams,
} from '../kubernetes/index.ts';
import { followDirectory } from './follow-directory.ts';
import type { RoleState, RoleValues } from './role-values.ts';

/** Inputs and ports (injected dependencies) of the balancer worker. */
export interface BalancerOptions {
  readonly reads: Pick<
    RoleValues,
    'clusterMembership' | 'clusterDirectory' | 'clusterSettings' | 'localKeys'
  >;
  readonly ports: Pick<SystemPorts, 'files' | 'units' | 'clock'> & {
    /** Health of the API servers as the balancer reports it. */
    readonly balancerHealth: (signal: AbortSignal) => Promise<readonly ApiServerHealth[]>;
  };
}

/** Interval at which the agent reads the health of the API servers, which it only shows in the status. */
const READ_MS = 10_000;

/** Every member runs a balancer, unless the operator has a load balancer. Pure. */
export function planBalancer({
  clusterMembership,
  clusterSettings,
}: Pick<RoleState, 'clusterMembership' | 'clusterSettings'>): Plan<Membership> {
  if (clusterMembership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (clusterSettings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  const { apiEndpoint } = clusterSettings;
  if (apiEndpoint !== undefined) return { kind: 'stop', why: `idle: using load balancer ${apiEndpoint}` };
  return { kind: 'start', config: clusterMembership };
}

/** Runs the balancer of the API servers, so that local clients always use the same address. */
export function balancerWorker({ reads, ports }: BalancerOptions): Runnable {
  const { clusterMembership, clusterDirectory, clusterSettings, localKeys } = reads;
  return launcher({
    input: combine({ clusterMembership, clusterSettings }),
    plan: planBalancer,
    tearDown: ({ signal }) => ports.units.stop(APILB_UNIT, signal),
    start: async (scope, membership) => {
      let upstreams: readonly HostPort[] = [];
      await followDirectory(scope, clusterDirectory, membership, (known, signal) => {
        upstreams = orderUpstreams(known, membership.nodeId);
        return ensureBalancer(ports, upstreams, signal);
      });
      // A rotation replaces the CAs with which the balancer verifies API servers.
      scope.run('trust', async (child) => {
        child.healthy();
        using stages = localKeys.watch();
        for (;;) {
          await stages.next(child.signal);
          await ensureBalancer(ports, upstreams, child.signal);
        }
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
