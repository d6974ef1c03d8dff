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

/** Nobody knows a new worker as a way yet, and who comes back tries for as long as it takes: a node's own pods come first. */
const PODS_FIRST_MS = 15_000;

export interface RelayOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
  };
  readonly ports: { readonly files: FilePort; readonly units: UnitPort; readonly clock: Clock };
}

/** Where a control plane runs, those who come are answered by itself. */
export function planRelay({
  membership,
  roles,
}: {
  readonly membership: Membership | undefined;
  readonly roles: RoleSet | undefined;
}): Plan<Membership> {
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (isControlPlane([...roles])) return { kind: 'stop', why: 'idle: this node is a control plane itself' };
  return { kind: 'start', config: membership };
}

/** Every worker is a way to the control planes of now, for nodes that know only those of before. */
export function relayWorker({ reads, ports }: RelayOptions): Runnable {
  return launcher({
    input: combine({ membership: reads.clusterMembership, roles: reads.localRoles }),
    plan: planRelay,
    tearDown: ({ signal }) => ports.units.stop(RELAY_UNIT, signal),
    start: async (scope, membership) => {
      scope.waiting('the pods of this node, which come first');
      await ports.clock.sleep(PODS_FIRST_MS, scope.signal);
      scope.waiting(undefined);
      await followDirectory(scope, {
        directory: reads.clusterDirectory,
        membership,
        apply: (known, signal) => {
          // Those that were seen to serve first.
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
