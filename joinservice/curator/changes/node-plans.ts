import { fromBinary } from '@bufbuild/protobuf';
import { put, remove } from '../../../internal/etcd/index.ts';
import { nodeNameKey, records, type NodeRecord } from '../../../internal/records/index.ts';
import { checkNodeMove, isControlPlane, type NodeState, type Role } from '../../../internal/role/index.ts';
import { NodeStatusSchema } from '../../curatorproto/gen/curator_pb.js';
import { CuratorError } from '../errors.ts';
import type { MutationPlan } from './mutations.ts';
import { unchangedView } from '../nodes/node-store.ts';
import { refuseField, type NodeView } from '../nodes/node-wire.ts';

const MAX_LABELS = 128;
/** Kubernetes' own rules: "[PREFIX/]NAME", NAME ≤ 63 characters, PREFIX a DNS name. */
const LABEL_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const LABEL_PREFIX = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/**
 * New roles of a node. The last control-plane node keeps its role, whatever happens at the same time elsewhere; and so does
 * the last one whose API server is ready: a promotion is on record long before anything of it answers.
 */
export function planRoles(node: NodeView, all: readonly NodeView[], roles: readonly Role[]): MutationPlan {
  const { record } = node;
  const detail = { from: record.roles, to: roles };
  if (record.state === 'DECOMMISSIONED' && roles.length > 0)
    throw new CuratorError('curator-node-in-use', `giving roles to ${record.nodeId}: it is decommissioned`);
  const when = [unchangedView(node)];
  const leaves = isControlPlane(record.roles) && !isControlPlane(roles);
  const losesApi = mayServeApi(node) && !roles.includes('KubernetesController');
  if (leaves || losesApi) {
    const others = all.filter((each) => isOtherControlPlane(each, node));
    if (leaves && others.length === 0)
      throw new CuratorError('curator-last-control-plane', `taking consensus from ${record.nodeId}`);
    const other = losesApi ? others.find((each) => saysOfApi(each) === 'ready') : others[0];
    if (other === undefined)
      throw new CuratorError(
        'curator-last-api-server',
        `taking the control plane from ${record.nodeId}: of ${others.map((each) => each.record.name).join(', ')} none serves the API`,
      );
    when.push(unchangedView(other)); // or two demotions at once would each count on the other
  }
  return {
    when,
    then: sameSet(record.roles, roles) ? [] : [write({ ...record, roles: [...roles] })],
    detail,
  };
}

/** A node's next state. UP is reached by joining only; what leaves the cluster has no consensus role any more. */
export function planState(node: NodeView, state: NodeState): MutationPlan {
  const { record } = node;
  const detail = { from: record.state, to: state };
  const moves = checkNodeMove(record.state, state);
  if (moves && state === 'UP') refuseField('state', 'a node becomes UP when it joins, not by decree');
  if (moves && state === 'DECOMMISSIONED' && isControlPlane(record.roles))
    throw new CuratorError(
      'curator-node-in-use',
      `decommissioning ${record.nodeId}: it is a consensus member`,
    );
  const roles = state === 'DECOMMISSIONED' ? [] : record.roles;
  return { when: [unchangedView(node)], then: moves ? [write({ ...record, state, roles })] : [], detail };
}

export function planLabels(
  node: NodeView,
  change: { readonly set: Readonly<Record<string, string>>; readonly remove: readonly string[] },
): MutationPlan {
  const { record } = node;
  for (const [key, value] of Object.entries(change.set)) checkLabel(key, value);
  const both = change.remove.find((key) => Object.hasOwn(change.set, key));
  if (both !== undefined) refuseField('labels', `${both} is to be set and removed`);
  const kept = Object.entries(record.labels).filter(([key]) => !change.remove.includes(key));
  const labels = { ...Object.fromEntries(kept), ...change.set };
  if (Object.keys(labels).length > MAX_LABELS) refuseField('labels', `more than ${MAX_LABELS}`);
  const same = JSON.stringify(sorted(labels)) === JSON.stringify(sorted(record.labels));
  return {
    when: [unchangedView(node)],
    then: same ? [] : [write({ ...record, labels })],
    detail: { set: change.set, remove: change.remove },
  };
}

/** Forgets a node. Its key is unknown from then on. */
export function planDeletion(node: NodeView): MutationPlan {
  const { nodeId, name, state, roles, admission } = node.record;
  if (state === 'UP' || roles.length > 0)
    throw new CuratorError(
      'curator-node-in-use',
      `deleting ${nodeId}: it is ${state} with ${roles.length} roles`,
    );
  return {
    when: [unchangedView(node)],
    then: [
      remove(records.node.key(nodeId)),
      remove(records.status.key(nodeId)),
      remove(records.heartbeat.key(nodeId)),
      remove(nodeNameKey(name)),
      remove(records.join.key(nodeId)),
      ...(admission === undefined ? [] : [remove(records.identity.key(admission.identity))]),
    ],
    detail: { name, state },
  };
}

function isOtherControlPlane(each: NodeView, node: NodeView): boolean {
  const { nodeId, state, roles } = each.record;
  return nodeId !== node.record.nodeId && state === 'UP' && isControlPlane(roles);
}

/** What a node that beats says of its API server: who fell silent may have had one. */
function saysOfApi({ record, status, isAlive: isBeating }: NodeView): 'ready' | 'not ready' | 'nothing' {
  if (!isBeating || status === undefined || !record.roles.includes('KubernetesController')) return 'nothing';
  const { controlPlane } = fromBinary(NodeStatusSchema, Buffer.from(status.status, 'base64'));
  const part = controlPlane.find(({ name }) => name === 'kube-apiserver');
  return part === undefined ? 'nothing' : part.ready ? 'ready' : 'not ready';
}

/** A node that is lost, or says that its API server is not ready, takes none away: nothing is won by keeping it. */
function mayServeApi(node: NodeView): boolean {
  const isServer = node.record.roles.includes('KubernetesController');
  return isServer && node.isAlive && saysOfApi(node) !== 'not ready';
}

function checkLabel(key: string, value: string): void {
  const [name, prefix, ...more] = key.split('/').reverse();
  const isKey =
    more.length === 0 && LABEL_NAME.test(name ?? '') && (prefix === undefined || LABEL_PREFIX.test(prefix));
  if (!isKey) refuseField('labels', `${JSON.stringify(key)} is no label key`);
  if (value !== '' && !LABEL_NAME.test(value))
    refuseField('labels', `${JSON.stringify(value)} is no label value`);
}

function write(record: NodeRecord) {
  return put(records.node.key(record.nodeId), records.node.encode(record));
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each) => b.includes(each));
}

function sorted(labels: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
}
