import { combine, follow } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { listLabeledNodes, removeTaintAndLabels } from '../kubernetes/index.ts';
import type { RoleState, RoleValues } from './role-values.ts';

/** A demoted node usually removes its own taint and label within this time. */
const GRACE_MS = 10_000;
/** Time until the next check of a node that is off or is still stopping its control plane. */
const LATER_MS = 60_000;
const ASK_MS = 10_000;

/** Inputs and ports (injected dependencies) of the worker. */
export interface StrayTaintsOptions extends Pick<SystemPorts, 'clock' | 'commands'> {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory' | 'kubernetesStatus'>;
  readonly curators: Curators;
}

/** Runs on nodes that run a Kubernetes control plane. Pure. */
export function planStrayTaints({
  clusterMembership,
  kubernetesStatus,
}: Pick<RoleState, 'clusterMembership' | 'kubernetesStatus'>): Plan<Membership> {
  if (clusterMembership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (kubernetesStatus?.controlPlane !== true)
    return { kind: 'wait', why: 'idle: no Kubernetes control plane on this node' };
  return { kind: 'start', config: clusterMembership };
}

/**
 * Removes the label and the taint of a control plane from nodes that no longer have the role. A demoted node does that
 * itself while it still has the permission. If no API server responds at that moment, the taint stays and would keep
 * ordinary pods off the node for ever, so this worker removes it. The worker checks at its start and whenever the list
 * of control planes changes. If a node has not reported that its control plane has stopped, the worker does not remove
 * its taint: the node may get the role again, and would not set the taint again.
 */
export function strayTaintsWorker(options: StrayTaintsOptions): Runnable {
  const { reads, clock } = options;
  const { clusterMembership, clusterDirectory, kubernetesStatus } = reads;
  return launcher({
    input: combine({ clusterMembership, kubernetesStatus }),
    plan: planStrayTaints,
    start: async (scope, { nodeName }) => {
      scope.run('watch', async (child) => {
        let isHealthy = false;
        for await (const _ of follow(clusterDirectory, child.signal)) {
          child.waiting(undefined);
          for (let pauseMs = GRACE_MS; ; pauseMs = LATER_MS) {
            await clock.sleep(pauseMs, child.signal);
            const undecided = await removeStrayTaints(options, nodeName, child);
            if (!isHealthy) child.healthy();
            isHealthy = true;
            if (undecided.length === 0) break;
            child.waiting(`control plane to stop on ${undecided.join(', ')}`);
          }
          child.waiting('changes of the list of control planes');
        }
      });
    },
  });
}

/**
 * Removes taints from all nodes that allow it, even if one node fails. Resolves to the nodes that must be
 * checked again.
 */
async function removeStrayTaints(
  { curators, commands }: StrayTaintsOptions,
  own: string,
  scope: Scope,
): Promise<readonly string[]> {
  const { signal, log } = scope;
  const undecided: string[] = [];
  const failures: unknown[] = [];
  // Reads Kubernetes first and the records second: a node that is promoted in between already has the role in
  // its record.
  for (const labeled of await listLabeledNodes(commands, signal)) {
    const { name } = labeled;
    try {
      const verdict = name === own ? 'entitled' : await classify(curators, name, signal);
      if (verdict === 'undecided') undecided.push(name);
      if (verdict !== 'stray') continue;
      await removeTaintAndLabels(commands, labeled, signal);
      log.info('removed label and taint of a former control plane', { node: name });
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return undecided;
}

/** Whether the node still has the role. The worker does not change a node without a record. */
async function classify(
  curators: Curators,
  name: string,
  signal: AbortSignal,
): Promise<'entitled' | 'stray' | 'undecided'> {
  return curators.use(
    async ({ client }, call) => {
      try {
        const { node } = await client.getNode({ node: name }, { signal: call, timeoutMs: ASK_MS });
        if (node?.state !== NodeState.UP || node.roles.includes(NodeRole.KUBERNETES_CONTROLLER))
          return 'entitled';
        const { health, status } = node;
        const isDown = health === NodeHealth.HEALTHY && status?.controlPlane.length === 0;
        return isDown ? 'stray' : 'undecided';
      } catch (error) {
        if (error instanceof RemoteError && error.code === 'curator-node-unknown') return 'entitled';
        throw error;
      }
    },
    { signal },
  );
}
