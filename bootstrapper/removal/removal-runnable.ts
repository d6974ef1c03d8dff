import type { Clock } from '../../internal/clock/index.ts';
import { currentValue, when, type Readable } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import type { CuratorClient } from '../curatorclient/index.ts';
import type { ChecksummedFile, Membership, RemovalRecord } from '../membership/index.ts';
import { RemovalError } from './errors.ts';

interface RemovalPorts {
  readonly curators: Pick<CuratorClient, 'removed'>;
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly state: { readonly removed: Pick<ChecksummedFile<RemovalRecord>, 'save'> };
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Ends the agent; systemd starts it again. */
  readonly end: (reason: unknown) => void;
}

/** Waits until the cluster has removed this node, saves that, and ends the agent. */
export function removalRunnable({ curators, reads, state, clock, end }: RemovalPorts): Runnable {
  return async (scope) => {
    scope.healthy();
    scope.waiting('a removal of this node');
    await when(curators.removed, (isRemoved) => isRemoved, scope.signal);
    const membership = currentValue(reads.clusterMembership);
    if (membership === undefined) throw new TypeError('called before this node is a member');
    const { clusterId, clusterName, nodeId, nodeName } = membership;
    await state.removed.save({ clusterId, clusterName, nodeId, nodeName, foundMs: clock.nowMs() });
    end(new RemovalError('removal-found', `cluster ${clusterName} has removed this node (${nodeName})`));
    scope.signal.throwIfAborted();
  };
}
