import {
  checkRoleChange,
  quorumOf,
  type EtcdMemberCounts,
  type GuardedNode,
} from '../../../internal/role/index.ts';
import { counted } from '../../../internal/printable/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { rolesFromWire } from '../../sign/index.ts';
import { NodesError } from '../errors.ts';
import { apiServerOf } from './control-plane-components.ts';

/** A node and all roles that it is to have. */
export interface RoleChange {
  readonly node: Node;
  readonly wanted: readonly NodeRole[];
}

/** What a role change would do, printed as it is by `-o json`. */
export interface RolePlan {
  readonly isNothing: boolean;
  /** The reasons why the change is refused; empty if it is allowed. */
  readonly refusals: readonly string[];
  /** The change is refused because the cluster would end with this control plane. */
  readonly isLastControlPlane: boolean;
  readonly steps: readonly string[];
  readonly needsDrain: boolean;
  /** Whether the role worker is added or removed. */
  readonly isWorkChanged: boolean;
  readonly voters: { readonly before: number; readonly after: number };
  readonly quorum: { readonly before: number; readonly after: number };
  /** Voters that respond now, and after the change. */
  readonly healthy: { readonly before: number; readonly after: number };
}

/** What happens to the encrypted state disk of a node that becomes a control plane. */
export const ENDS_APPROVALS =
  'if it is encrypted, approvals of other software for it end (`cluster attest approve NODE` gives a new one)';

/**
 * The steps of a role change, or the reasons why `checkRoleChange` refuses it, from the nodes that a curator
 * reports.
 */
export function planRoleChange(
  change: RoleChange,
  cluster: { readonly nodes: readonly Node[]; readonly etcd: EtcdMemberCounts },
): RolePlan {
  const { node, wanted } = change;
  const loses = (role: NodeRole): boolean => node.roles.includes(role) && !wanted.includes(role);
  const gains = (role: NodeRole): boolean => !node.roles.includes(role) && wanted.includes(role);
  const controlPlanes = cluster.nodes.filter(
    ({ roles, state }) => state === NodeState.UP && roles.includes(NodeRole.CONSENSUS_MEMBER),
  );
  const isNothing = [...node.roles].sort().join() === [...wanted].sort().join();
  const { voters, quorum, healthy, refusals } = checkRoleChange(
    { node: guardedNodeFrom(node), roles: rolesFromWire(wanted) },
    { controlPlanes: controlPlanes.map(guardedNodeFrom), etcd: cluster.etcd },
  );
  const losesWork = loses(NodeRole.KUBERNETES_WORKER);
  const gainsWork = gains(NodeRole.KUBERNETES_WORKER);
  const leaves = loses(NodeRole.CONSENSUS_MEMBER);
  const enters = gains(NodeRole.CONSENSUS_MEMBER);
  const notMember = node.state === NodeState.UP ? [] : [`${node.name} is not a member (state UP)`];
  return {
    isNothing,
    refusals: isNothing ? [] : [...notMember, ...refusals.map(({ reason }) => reason)],
    isLastControlPlane: !isNothing && refusals.some(({ guard }) => guard === 'last-control-plane'),
    needsDrain: losesWork,
    isWorkChanged: losesWork || gainsWork,
    // Without a change, the numbers after it come from the records: etcd may not have reached that state yet.
    voters: isNothing ? { ...voters, after: controlPlanes.length } : voters,
    quorum: isNothing ? { ...quorum, after: quorumOf(controlPlanes.length) } : quorum,
    healthy,
    steps: isNothing
      ? []
      : [
          ...(losesWork ? ['evict its pods, respecting disruption budgets'] : []),
          ...(leaves ? ['stop its API server and controllers, remove its etcd members, wipe its keys'] : []),
          ...(enters ? [`take a share of its state disk back from the signers: ${ENDS_APPROVALS}`] : []),
          ...(enters
            ? ['add its etcd members as learners, promote them, start its API server and controllers']
            : []),
          ...(losesWork ? ['taint it, so that only control-plane pods run on it'] : []),
          ...(gainsWork ? ['remove the control-plane taint'] : []),
        ],
  };
}

function guardedNodeFrom(node: Node): GuardedNode {
  const { isKnown, isReady, why } = apiServerOf(node);
  return {
    nodeId: node.nodeId,
    name: node.name,
    roles: rolesFromWire(node.roles),
    isAlive: node.health === NodeHealth.HEALTHY,
    apiServer: isKnown ? { isReady, reason: why } : undefined,
  };
}

/**
 * The error for a change that is refused.
 * @param why the reasons, which may be more than those of the plan
 */
export function unsafeChange(
  doing: string,
  { isLastControlPlane }: Pick<RolePlan, 'isLastControlPlane'>,
  { why, details = {} }: { readonly why: readonly string[]; readonly details?: Record<string, unknown> },
): NodesError {
  const code = isLastControlPlane ? 'nodes-last-control-plane' : 'nodes-change-unsafe';
  return new NodesError(code, `${doing}: ${[...new Set(why)].join('; ')}`, { details });
}

/** The quorum of etcd before and after the change: "2 of 3 voters needed, 3 healthy → 2 of 2 …". */
export function describeQuorum({ voters, quorum, healthy }: RolePlan): string {
  const one = (when: 'before' | 'after'): string =>
    `${quorum[when]} of ${counted(voters[when], 'voter')} needed, ${healthy[when]} healthy`;
  return voters.before === voters.after ? one('before') : `${one('before')} → ${one('after')}`;
}
