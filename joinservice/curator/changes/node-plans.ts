import { remove } from '../../../internal/etcd/index.ts';
import { counted } from '../../../internal/printable/index.ts';
import { nodeNameKey, records, type NodeRecord } from '../../../internal/records/index.ts';
import {
  checkNodeMove,
  checkRoleChange,
  type GuardedNode,
  isControlPlane,
  MAX_LABELS,
  type NodeState,
  type Role,
  type RoleChangeGuard,
} from '../../../internal/role/index.ts';
import { CuratorError, type CuratorErrorCode } from '../errors.ts';
import type { MutationPlan } from './mutations.ts';
import { unchangedView } from '../nodes/node-store.ts';
import { checkLabels, nodeStatusOf, refuseField, type NodeView } from '../nodes/node-wire.ts';

/**
 * The role-change guards that a curator enforces, with their names. The leader guard is missing, because a
 * curator that has just read the members knows that etcd has a leader.
 */
const GUARD_CODES: Partial<Record<RoleChangeGuard, CuratorErrorCode>> = {
  'last-control-plane': 'curator-last-control-plane',
  'last-api-server': 'curator-last-api-server',
  'quorum-loss': 'curator-quorum-loss',
};

/** The facts that the guards of a role change evaluate. */
export interface GuardedCluster {
  readonly nodes: readonly NodeView[];
  /**
   * Number of voting members of the etcd that stores the state of the cluster, not of the etcd that stores the
   * objects of Kubernetes.
   */
  readonly etcdVoters: number;
}

/** Whether a role change removes a control-plane role, so that `planRoles` needs all nodes of the cluster. */
export function losesControlPlane(from: readonly Role[], to: readonly Role[]): boolean {
  return from.some((role) => role !== 'KubernetesWorker' && !to.includes(role));
}

/**
 * New roles of a node; refused if the change would violate a guard of `checkRoleChange`.
 * @param cluster the other nodes, read after the node; used only if `losesControlPlane` is true
 */
export function planRoles(node: NodeView, roles: readonly Role[], cluster: GuardedCluster): MutationPlan {
  const { record } = node;
  if (record.state === 'DECOMMISSIONED' && roles.length > 0)
    throw new CuratorError(
      'curator-node-in-use',
      `cannot give roles to ${record.name}: it is decommissioned`,
    );
  const controlPlanes = losesControlPlane(record.roles, roles)
    ? cluster.nodes.filter(isActiveControlPlane)
    : [];
  if (losesControlPlane(record.roles, roles)) {
    const etcd = { hasLeader: true, voters: cluster.etcdVoters, learners: 0 };
    const change = { node: guardedNodeFrom(node), roles };
    const { refusals } = checkRoleChange(change, { controlPlanes: controlPlanes.map(guardedNodeFrom), etcd });
    for (const { guard, reason } of refusals) {
      const code = GUARD_CODES[guard];
      if (code !== undefined)
        throw new CuratorError(code, `cannot change the roles of ${record.name}: ${reason}`);
    }
  }
  const others = controlPlanes.filter((each) => each.record.nodeId !== record.nodeId);
  return {
    // The transaction also requires the other control planes to be unchanged, because two concurrent
    // demotions would each rely on the other node.
    when: [node, ...others].map(unchangedView),
    then: sameSet(record.roles, roles) ? [] : [write(withRoles(record, roles))],
    detail: { from: record.roles, to: roles },
  };
}

/** Changes the state of a node. A node becomes UP only by joining, and a control plane cannot be decommissioned. */
export function planState(node: NodeView, state: NodeState): MutationPlan {
  const { record } = node;
  const detail = { from: record.state, to: state };
  const moves = checkNodeMove(record.state, state);
  if (moves && state === 'UP') refuseField('state', 'a node becomes UP only by joining');
  if (moves && state === 'DECOMMISSIONED' && isControlPlane(record.roles))
    throw new CuratorError(
      'curator-node-in-use',
      `cannot decommission ${record.name}: it is a control plane`,
    );
  const roles = state === 'DECOMMISSIONED' ? [] : record.roles;
  return { when: [unchangedView(node)], then: moves ? [write({ ...record, state, roles })] : [], detail };
}

/**
 * Sets and removes labels. They must follow the syntax of Kubernetes, and labels that are reserved for Kubernetes are
 * refused.
 */
export function planLabels(
  node: NodeView,
  change: { readonly set: Readonly<Record<string, string>>; readonly remove: readonly string[] },
): MutationPlan {
  const { record } = node;
  checkLabels(change.set);
  const both = change.remove.find((key) => Object.hasOwn(change.set, key));
  if (both !== undefined) refuseField('labels', `${both} is both set and removed`);
  const kept = Object.entries(record.labels).filter(([key]) => !change.remove.includes(key));
  const labels = { ...Object.fromEntries(kept), ...change.set };
  if (Object.keys(labels).length > MAX_LABELS) refuseField('labels', `expected at most ${MAX_LABELS}`);
  const same = JSON.stringify(sorted(labels)) === JSON.stringify(sorted(record.labels));
  return {
    when: [unchangedView(node)],
    then: same ? [] : [write({ ...record, labels })],
    detail: { set: change.set, remove: change.remove },
  };
}

/** Deletes the records of a node. After that every curator refuses the node key. */
export function planDeletion(node: NodeView): MutationPlan {
  const { nodeId, name, state, roles, admission } = node.record;
  if (state === 'UP' || roles.length > 0)
    throw new CuratorError(
      'curator-node-in-use',
      `cannot delete ${name}: its state is ${state} and it has ${counted(roles.length, 'role')}`,
    );
  return {
    when: [unchangedView(node)],
    then: [
      remove(records.node.key(nodeId)),
      remove(records.status.key(nodeId)),
      remove(records.heartbeat.key(nodeId)),
      remove(nodeNameKey(name)),
      remove(records.join.key(nodeId)),
      remove(records.keptWorker.key(nodeId)),
      ...(admission === undefined ? [] : [remove(records.identity.key(admission.identity))]),
    ],
    detail: { name, state },
  };
}

function isActiveControlPlane({ record }: NodeView): boolean {
  return record.state === 'UP' && isControlPlane(record.roles);
}

function guardedNodeFrom({ record, status, isAlive }: NodeView): GuardedNode {
  const { nodeId, name, roles } = record;
  const part = nodeStatusOf({ status })?.controlPlane.find((each) => each.name === 'kube-apiserver');
  const apiServer = part && { isReady: part.ready, reason: part.why };
  return { nodeId, name, roles, isAlive, apiServer };
}

/** Remembers that the node was a control plane: the removal of a node has to tell whether it held shared keys. */
function withRoles(record: NodeRecord, roles: readonly Role[]): NodeRecord {
  const wasControlPlane = [record.roles, roles].some(isControlPlane) ? true : record.wasControlPlane;
  return { ...record, roles: [...roles], ...(wasControlPlane === undefined ? {} : { wasControlPlane }) };
}

function write(record: NodeRecord) {
  return records.node.put(records.node.key(record.nodeId), record);
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each) => b.includes(each));
}

function sorted(labels: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
}
