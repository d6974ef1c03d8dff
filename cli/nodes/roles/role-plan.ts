import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { apiServerLossReason } from './control-plane-components.ts';

/** etcd as a curator sees it, without the nodes' own words. */
export interface ConsensusView {
  readonly hasLeader: boolean;
  readonly voters: number;
  readonly learners: number;
}

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

export function quorumOf(voters: number): number {
  return Math.floor(voters / 2) + 1;
}

/** Pure: from what the curator says. */
export function planRoleChange(
  change: RoleChange,
  cluster: { readonly nodes: readonly Node[]; readonly consensus: ConsensusView },
): RolePlan {
  const { node, wanted } = change;
  const { nodes, consensus } = cluster;
  const has = (role: NodeRole): boolean => node.roles.includes(role);
  const wants = (role: NodeRole): boolean => wanted.includes(role);
  const leaves = has(NodeRole.CONSENSUS_MEMBER) && !wants(NodeRole.CONSENSUS_MEMBER);
  const enters = !has(NodeRole.CONSENSUS_MEMBER) && wants(NodeRole.CONSENSUS_MEMBER);
  const losesWork = has(NodeRole.KUBERNETES_WORKER) && !wants(NodeRole.KUBERNETES_WORKER);
  const losesApi = has(NodeRole.KUBERNETES_CONTROLLER) && !wants(NodeRole.KUBERNETES_CONTROLLER);
  const gainsWork = !has(NodeRole.KUBERNETES_WORKER) && wants(NodeRole.KUBERNETES_WORKER);
  const members = nodes.filter(
    ({ roles, state }) => state === NodeState.UP && roles.includes(NodeRole.CONSENSUS_MEMBER),
  );
  const healthyNow = members.filter(({ health }) => health === NodeHealth.HEALTHY);
  const isNothing = [...node.roles].sort().join() === [...wanted].sort().join();
  const voters = {
    before: consensus.voters,
    // The records say what is to be; etcd may still be on its way there.
    after: isNothing ? members.length : consensus.voters + (enters ? 1 : 0) - (leaves ? 1 : 0),
  };
  const quorum = { before: quorumOf(voters.before), after: quorumOf(voters.after) };
  const isCounted = healthyNow.some(({ nodeId }) => nodeId === node.nodeId);
  const healthy = {
    before: healthyNow.length,
    after: healthyNow.length + (enters ? 1 : 0) - (leaves && isCounted ? 1 : 0),
  };
  const apiGone = losesApi && members.length > 1 ? apiServerLossReason(node, nodes) : undefined;
  const refusals = [
    ...(node.state === NodeState.UP ? [] : [`${node.name} is no member that is UP`]),
    ...(leaves && members.length <= 1 ? ['it is the last control-plane node'] : []),
    ...((leaves || enters) && !consensus.hasLeader ? ['etcd has no leader: it can change no member'] : []),
    ...((leaves || enters) && healthy.before < quorum.before
      ? [`only ${healthy.before} of ${voters.before} voters are healthy, ${quorum.before} are needed`]
      : []),
    ...(leaves && members.length > 1 && healthy.after < quorum.after
      ? [`${healthy.after} healthy voters would be left, and ${quorum.after} of ${voters.after} are needed`]
      : []),
    ...(apiGone === undefined ? [] : [apiGone]),
    ...(enters && consensus.learners > 0 ? ['another control plane is joining: one at a time'] : []),
  ];
  return {
    isNothing,
    refusals: isNothing ? [] : refusals,
    needsDrain: losesWork,
    isWorkChanged: losesWork || gainsWork,
    voters,
    quorum,
    healthy,
    steps: isNothing
      ? []
      : stepsOf({
          losesWork,
          leaves,
          enters,
          gainsWork,
        }),
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
