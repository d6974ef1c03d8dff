import { combine } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { launcher, type Plan, type Runnable } from '../../internal/supervisor/index.ts';
import type { Membership } from '../membership/index.ts';
import { RELAY_UNIT, ensureRelay } from '../units/index.ts';
import { followDirectory } from './follow-directory.ts';
import type { RoleState, RoleValues } from './role-values.ts';

/**
 * Delay before the relay starts on a new node, so that its pods start first. No other node knows this relay
 * yet.
 */
const PODS_FIRST_MS = 15_000;

/** Inputs and ports (injected dependencies) of the relay worker. */
export interface RelayOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory' | 'localRoles'>;
  readonly ports: Pick<SystemPorts, 'files' | 'units' | 'clock'>;
}

/** Every member that is not a control plane runs a relay. Pure. */
export function planRelay({
  clusterMembership,
  localRoles,
}: Pick<RoleState, 'clusterMembership' | 'localRoles'>): Plan<Membership> {
  if (clusterMembership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (localRoles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (isControlPlane([...localRoles])) return { kind: 'stop', why: 'idle: this node is a control plane' };
  return { kind: 'start', config: clusterMembership };
}

/** Runs a relay to the current control planes, for nodes that know only former control planes. */
export function relayWorker({ reads, ports }: RelayOptions): Runnable {
  const { clusterMembership, clusterDirectory, localRoles } = reads;
  return launcher({
    input: combine({ clusterMembership, localRoles }),
    plan: planRelay,
    tearDown: ({ signal }) => ports.units.stop(RELAY_UNIT, signal),
    start: async (scope, membership) => {
      scope.waiting('pods of this node to start first');
      await ports.clock.sleep(PODS_FIRST_MS, scope.signal);
      scope.waiting(undefined);
      await followDirectory(scope, clusterDirectory, membership, (known, signal) => {
        // Control planes with a serving curator come first.
        const ordered = known.toSorted((a, b) => Number(b.curator) - Number(a.curator));
        const controlPlanes = ordered.map(({ host }) => host);
        return ensureRelay(ports, { nodeAddress: membership.nodeAddress, controlPlanes }, signal);
      });
    },
  });
}
