import type { Clock } from '../../internal/clock/index.ts';
import { combine, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { RELAY_UNIT, ensureRelay } from '../units/index.ts';
import { followDirectory } from './follow-directory.ts';
import type { RoleSet } from './role-values.ts';

/**
 * Delay before the relay starts on a new node, so that its pods start first. No other node knows this relay
 * yet.
 */
const PODS_FIRST_MS = 15_000;

/** Inputs and ports of the relay worker. */
export interface RelayOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
  };
  readonly ports: { readonly files: FilePort; readonly units: UnitPort; readonly clock: Clock };
}

/** Every member that is not a control plane runs a relay. Pure. */
export function planRelay({
  membership,
  roles,
}: {
  readonly membership: Membership | undefined;
  readonly roles: RoleSet | undefined;
}): Plan<Membership> {
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (isControlPlane([...roles])) return { kind: 'stop', why: 'idle: this node is a control plane' };
  return { kind: 'start', config: membership };
}

/** Runs a relay to the current control planes, for nodes that know only former control planes. */
export function relayWorker({ reads, ports }: RelayOptions): Runnable {
  return launcher({
    input: combine({ membership: reads.clusterMembership, roles: reads.localRoles }),
    plan: planRelay,
    tearDown: ({ signal }) => ports.units.stop(RELAY_UNIT, signal),
    start: async (scope, membership) => {
      scope.waiting('pods of this node to start first');
      await ports.clock.sleep(PODS_FIRST_MS, scope.signal);
      scope.waiting(undefined);
      await followDirectory(scope, {
        directory: reads.clusterDirectory,
        membership,
        apply: (known, signal) => {
          // Control planes whose curator serves come first.
          const hosts = known.toSorted((a, b) => Number(b.curator) - Number(a.curator));
          return ensureRelay(
            ports,
            hosts.map(({ host }) => host),
            signal,
          );
        },
      });
    },
  });
}
