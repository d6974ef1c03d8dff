import type { Clock } from '../../internal/clock/index.ts';
import { combine, follow, type Readable } from '../../internal/event/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { ClusterDirectory, Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { listLabeledNodes, removeTaintAndLabels } from '../kubernetes/index.ts';
import type { KubernetesStatus } from './role-values.ts';

/** Who gives its role up takes its mark off by itself, as a rule. */
const GRACE_MS = 10_000;
/** How long a node that is off, or still takes its control plane down, is left alone. */
const LATER_MS = 60_000;
const ASK_MS = 10_000;

export interface StrayTaintsOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly kubernetesStatus: Readable<KubernetesStatus | undefined>;
  };
  readonly curators: Curators;
  readonly clock: Clock;
  readonly commands: CommandRunner;
}

export function planStrayTaints({
  membership,
  kubernetes,
}: {
  readonly membership: Membership | undefined;
  readonly kubernetes: KubernetesStatus | undefined;
}): Plan<Membership> {
  if (membership === undefined) return { kind: 'wait', why: 'the membership of this node' };
  if (kubernetes?.controlPlane !== true)
    return { kind: 'wait', why: 'idle: this node runs no control plane of Kubernetes' };
  return { kind: 'start', config: membership };
}

/**
 * Control planes take the mark of one off nodes that are none any more. Who is demoted does it by itself while it still may;
 * did no API server answer it then, it would be closed to ordinary pods for good: no node may do that to itself. Looked at
 * whenever control planes come or go, and at every start; what fails is tried again, with growing pauses. Who has not said
 * that all of it is down keeps its mark until then: it may be given its role back, and would not mark itself again.
 */
export function strayTaintsWorker(options: StrayTaintsOptions): Runnable {
  const { reads, clock } = options;
  return launcher({
    input: combine({ membership: reads.clusterMembership, kubernetes: reads.kubernetesStatus }),
    plan: planStrayTaints,
    start: async (scope, { nodeName }) => {
      scope.run('strays', async (child) => {
        let isHealthy = false;
        for await (const _ of follow(reads.clusterDirectory, child.signal)) {
          child.waiting(undefined);
          for (let pauseMs = GRACE_MS; ; pauseMs = LATER_MS) {
            await clock.sleep(pauseMs, child.signal);
            const undecided = await unmarkStrays(options, nodeName, child);
            if (!isHealthy) child.healthy();
            isHealthy = true;
            if (undecided.length === 0) break;
            child.waiting(`the control plane of ${undecided.join(', ')} to be down`);
          }
          child.waiting('control planes to come or go');
        }
      });
    },
  });
}

/** Of those that are marked: who has to be looked at again. Nobody keeps a mark for somebody else's fault. */
async function unmarkStrays(
  { curators, commands }: StrayTaintsOptions,
  own: string,
  scope: Scope,
): Promise<readonly string[]> {
  const { signal, log } = scope;
  const undecided: string[] = [];
  const failures: unknown[] = [];
  // First what Kubernetes has, then what is on record: who is promoted in between has changed by the time it is marked.
  for (const marked of await listLabeledNodes(commands, signal)) {
    const { name } = marked;
    try {
      const verdict = name === own ? 'rightful' : await judge(curators, name, signal);
      if (verdict === 'undecided') undecided.push(name);
      if (verdict !== 'stray') continue;
      await removeTaintAndLabels(commands, marked, signal);
      log.info('took the mark of a control plane off a node that is none any more', { node: name });
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return undecided;
}

/** Of whom nothing is on record, somebody else may know. */
async function judge(
  curators: Curators,
  name: string,
  signal: AbortSignal,
): Promise<'rightful' | 'stray' | 'undecided'> {
  return curators.use(
    async ({ client }, call) => {
      try {
        const { node } = await client.getNode({ node: name }, { signal: call, timeoutMs: ASK_MS });
        if (node?.state !== NodeState.UP || node.roles.includes(NodeRole.KUBERNETES_CONTROLLER))
          return 'rightful';
        const { health, status } = node;
        const isDown = health === NodeHealth.HEALTHY && status?.controlPlane.length === 0;
        return isDown ? 'stray' : 'undecided';
      } catch (error) {
        if (error instanceof RemoteError && error.code === 'curator-node-unknown') return 'rightful';
        throw error;
      }
    },
    { signal },
  );
}
