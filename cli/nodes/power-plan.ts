import { quorumOf } from '../../internal/role/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type GetClusterInfoResponse,
  type Node,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator, findNode } from '../cluster/index.ts';
import { lossesOfDisk } from './disk/disk-losses.ts';
import { NodesError } from './errors.ts';

/** What a restart or shutdown of a node would do. */
export interface PowerPlan {
  readonly node: Node;
  readonly action: 'reboot' | 'off';
  /** The boot that the order ends. */
  readonly bootId: string;
  /** Whether etcd has no quorum while the machine is off. */
  readonly endsQuorum: boolean;
  readonly losses: readonly string[];
}

/**
 * Plans a restart or shutdown of a node.
 * @throws NodesError `nodes-change-unsafe` if the node cannot take the order, or the quorum would be lost
 */
export async function planPower(
  context: CommandContext,
  name: string,
  action: 'reboot' | 'off',
): Promise<PowerPlan> {
  const node = await findNode(context, name);
  const { nodes, info } = await callCurator(context, async ({ curator }) => {
    const [list, now] = await Promise.all([curator.listNodes({}), curator.getClusterInfo({})]);
    return { nodes: list.nodes, info: now };
  });
  const bootId = node.status?.bootId ?? '';
  const refusals = [
    ...(node.state === NodeState.UP ? [] : [`${node.name} is not a member`]),
    ...(node.health === NodeHealth.HEALTHY && bootId !== '' ? [] : [`${node.name} does not respond`]),
  ];
  const quorum = quorumWithout(node, nodes, info);
  if (quorum.ends && !quorum.isComplete)
    refusals.push(
      `etcd would lose its quorum: ${quorum.others} other voters are healthy, ${quorum.needed} are needed`,
    );
  if (refusals.length > 0)
    throw new NodesError(
      'nodes-change-unsafe',
      `changing the power of node ${node.name}: ${refusals.join('; ')}`,
    );
  const disk = await lossesOfDisk(context, node);
  const until = action === 'reboot' ? 'until it is back' : 'until somebody starts it';
  return {
    ...{ node, action, bootId },
    endsQuorum: quorum.ends,
    losses: [
      ...(action === 'off' ? [`the machine of ${node.name} is off ${until}`] : []),
      ...(quorum.ends ? [`etcd has no quorum, and the cluster refuses every change, ${until}`] : []),
      ...disk,
    ],
  };
}

/**
 * Counts the voters of etcd that stay healthy while the node is off. `ends`: these are too few for a quorum.
 * `isComplete`: all voters are healthy now, so if etcd loses its quorum, the quorum returns together with the node.
 */
function quorumWithout(node: Node, nodes: readonly Node[], { etcd }: GetClusterInfoResponse) {
  const voters = etcd?.members.filter(({ isLearner }) => !isLearner).length ?? 0;
  const isVoter = ({ roles }: Node): boolean => roles.includes(NodeRole.CONSENSUS_MEMBER);
  const others = nodes.filter(
    (each) => each.nodeId !== node.nodeId && isVoter(each) && each.health === NodeHealth.HEALTHY,
  ).length;
  const needed = quorumOf(voters);
  return { others, needed, ends: isVoter(node) && others < needed, isComplete: others + 1 >= voters };
}

/** Shows what the command would do. */
export function showPowerPlan({ host }: CommandContext, plan: PowerPlan, drains: boolean): void {
  const { node, action, losses } = plan;
  host.result({ node: node.name, dryRun: true, drains, losses }, () =>
    [
      `Node ${node.name} would be ${action === 'reboot' ? 'restarted' : 'shut down'}. Nothing was changed.`,
      ...(drains ? ['  its pods are evicted, respecting disruption budgets'] : []),
      ...losses.map((loss) => `  ${loss}`),
    ].join('\n'),
  );
}
