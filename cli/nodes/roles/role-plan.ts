import {
  checkRoleChange,
  quorumOf,
  type EtcdMemberCounts,
  type GuardedNode,
} from '../../../internal/role/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { rolesFromWire } from '../../sign/index.ts';
import { apiServerOf } from './control-plane-components.ts';

export interface RoleChange {
  readonly node: Node;
  readonly wanted: readonly NodeRole[];
}

/** What a change of roles means, before anything is changed. */
export interface RolePlan {
  readonly isNothing: boolean;
  /** Why it may not be done; empty when it may. */
  readonly refusals: readonly string[];
  readonly steps: readonly string[];
  readonly needsDrain: boolean;
  /** Whether it gains ordinary work, or gives it up. */
  readonly isWorkChanged: boolean;
  readonly voters: { readonly before: number; readonly after: number };
  readonly quorum: { readonly before: number; readonly after: number };
  /** Voters that answer now, and those that will. */
  readonly healthy: { readonly before: number; readonly after: number };
}

/** The plan for a role change, and what refuses it: the guards of `checkRoleChange`, from what a curator reports. */
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
    needsDrain: losesWork,
    isWorkChanged: losesWork || gainsWork,
    // The records say what is to be; etcd may still be on its way there.
    voters: isNothing ? { ...voters, after: controlPlanes.length } : voters,
    quorum: isNothing ? { ...quorum, after: quorumOf(controlPlanes.length) } : quorum,
    healthy,
    steps: isNothing ? [] : stepsOf({ losesWork, leaves, enters, gainsWork }),
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

function stepsOf(what: {
  readonly losesWork: boolean;
  readonly leaves: boolean;
  readonly enters: boolean;
  readonly gainsWork: boolean;
}): readonly string[] {
  return [
    ...(what.losesWork ? ['move its pods away (evictions, disruption budgets respected)'] : []),
    ...(what.leaves ? ['stop its API server and controllers, take its etcd member out, wipe its keys'] : []),
    ...(what.enters
      ? ['add its etcd member as learner, promote it, start its API server and controllers']
      : []),
    ...(what.losesWork ? ['keep ordinary pods off it'] : []),
    ...(what.gainsWork ? ['let ordinary pods run on it'] : []),
  ];
}

/** "2 of 3 voters needed, 3 healthy → 2 of 2 …" */
export function describeQuorum({ voters, quorum, healthy }: RolePlan): string {
  const one = (when: 'before' | 'after'): string =>
    `${quorum[when]} of ${voters[when]} voter${voters[when] === 1 ? '' : 's'} needed, ${healthy[when]} healthy`;
  return voters.before === voters.after ? one('before') : `${one('before')} → ${one('after')}`;
}
