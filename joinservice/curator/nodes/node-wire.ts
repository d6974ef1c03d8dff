import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import type { NodeRecord, StatusRecord } from '../../../internal/records/index.ts';
import {
  isLabelKey,
  isLabelValue,
  isReservedLabel,
  isTaintEffect,
  MAX_LABELS,
  type NodeState as State,
  parseRoles,
  type Role,
  type Taint,
  whyTaintsInvalid,
} from '../../../internal/role/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  NodeStatusSchema,
  type Node,
  type NodeStatus,
} from '../../curatorproto/gen/curator_pb.js';
import { CuratorError } from '../errors.ts';

/** The records of one node: its recorded state, its reported status, and whether its heartbeat is current. */
export interface NodeView {
  readonly record: NodeRecord;
  readonly recordRevision: bigint;
  readonly status: StatusRecord | undefined;
  readonly isAlive: boolean;
}

const ROLE_TO_WIRE: Readonly<Record<Role, NodeRole>> = {
  ConsensusMember: NodeRole.CONSENSUS_MEMBER,
  KubernetesController: NodeRole.KUBERNETES_CONTROLLER,
  KubernetesWorker: NodeRole.KUBERNETES_WORKER,
};
const STATE_TO_WIRE: Readonly<Record<State, NodeState>> = {
  NEW: NodeState.NEW,
  STANDBY: NodeState.STANDBY,
  UP: NodeState.UP,
  DECOMMISSIONED: NodeState.DECOMMISSIONED,
};

/**
 * Converts a node to its message in the contract.
 * @param silentSinceMs since when the node has sent no heartbeat, if this is known
 */
export function nodeToWire(view: NodeView, silentSinceMs?: number): Node {
  const { record, status } = view;
  const health = healthOf(view);
  const node: MessageInitShape<typeof NodeSchema> = {
    nodeId: record.nodeId,
    name: record.name,
    publicKey: new Uint8Array(Buffer.from(record.pubKey, 'base64')),
    state: STATE_TO_WIRE[record.state],
    roles: [...rolesToWire(record.roles)],
    labels: record.labels,
    taints: [...(record.taints ?? [])],
    health,
    silentSinceMs: BigInt(health === NodeHealth.TIMEOUT ? (silentSinceMs ?? 0) : 0),
    createdMs: BigInt(record.createdMs),
    recordRevision: view.recordRevision,
    ...(record.wasControlPlane === undefined ? {} : { wasControlPlane: record.wasControlPlane }),
    ...(record.admission === undefined ? {} : { admission: admissionOf(record.admission) }),
  };
  const reported = nodeStatusOf(view);
  if (status === undefined || reported === undefined) return create(NodeSchema, node);
  return create(NodeSchema, {
    ...node,
    status: reported,
    statusUpdatedMs: BigInt(status.updatedMs),
  });
}

function admissionOf(admission: NonNullable<NodeRecord['admission']>) {
  const { akName = '', lockCounter: _, timeMs, ...rest } = admission;
  return { ...rest, akName, timeMs: BigInt(timeMs) };
}

/** The status that a node reported; undefined before its first one. */
export function nodeStatusOf({ status }: Pick<NodeView, 'status'>): NodeStatus | undefined {
  return status && fromBinary(NodeStatusSchema, Buffer.from(status.status, 'base64'));
}

/** The health of a node. A node that has never reported a status is UNKNOWN, not TIMEOUT. */
export function healthOf(view: NodeView): NodeHealth {
  if (view.record.state !== 'UP') return NodeHealth.UNKNOWN;
  if (view.isAlive) return NodeHealth.HEALTHY;
  return view.status === undefined ? NodeHealth.UNKNOWN : NodeHealth.TIMEOUT;
}

/** Converts roles to the numbers of the contract. */
export function rolesToWire(roles: readonly Role[]): readonly NodeRole[] {
  return roles.map((role) => ROLE_TO_WIRE[role]);
}

/** The roles of a request. @throws CuratorError for an unknown number, RoleError `role-conflict` */
export function rolesFromWire(numbers: readonly NodeRole[]): readonly Role[] {
  const names = numbers.map(
    (number) => keyOf(ROLE_TO_WIRE, number) ?? refuseField('roles', `unknown role ${number}`),
  );
  return parseRoles(names);
}

/** The state of a request. @throws CuratorError for an unknown number */
export function stateFromWire(number: NodeState): State {
  return keyOf(STATE_TO_WIRE, number) ?? refuseField('state', `unknown state ${number}`);
}

/**
 * Checks the labels that a caller sets. They must follow the syntax of Kubernetes, and labels that are reserved for
 * Kubernetes are refused.
 * @throws CuratorError `curator-request-invalid`
 */
export function checkLabels(labels: Readonly<Record<string, string>>): void {
  if (Object.keys(labels).length > MAX_LABELS) refuseField('labels', `expected at most ${MAX_LABELS}`);
  for (const [key, value] of Object.entries(labels)) {
    if (!isLabelKey(key)) refuseField('labels', `${JSON.stringify(key)} is not a label key`);
    if (isReservedLabel(key)) refuseField('labels', `${key} is reserved for Kubernetes`);
    if (!isLabelValue(value)) refuseField('labels', `${JSON.stringify(value)} is not a label value`);
  }
}

/**
 * Returns the taints that a caller sets. They must follow the syntax of Kubernetes, and taints that are reserved for
 * Kubernetes are refused.
 * @throws CuratorError `curator-request-invalid`
 */
export function taintsFromWire(
  taints: readonly { readonly key: string; readonly value: string; readonly effect: string }[],
): readonly Taint[] {
  const why = whyTaintsInvalid(taints);
  if (why !== undefined) refuseField('taints', why);
  return taints.flatMap(({ key, value, effect }) => (isTaintEffect(effect) ? [{ key, value, effect }] : []));
}

/** The error for an invalid field of a request. @throws CuratorError `curator-request-invalid` */
export function refuseField(field: string, why: string): never {
  throw new CuratorError('curator-request-invalid', `invalid ${field}: ${why}`, { details: { field } });
}

function keyOf<K extends string, V>(table: Readonly<Record<K, V>>, value: V): K | undefined {
  return (Object.keys(table) as K[]).find((key) => table[key] === value);
}
