import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import type { NodeRecord, StatusRecord } from '../../../internal/records/index.ts';
import { parseRoles, type NodeState as State, type Role } from '../../../internal/role/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  NodeStatusSchema,
  type Node,
} from '../../curatorproto/gen/curator_pb.js';
import { CuratorError } from '../errors.ts';

/** Everything the cluster knows about one node. */
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

export function nodeToWire(view: NodeView): Node {
  const { record, status } = view;
  const node: MessageInitShape<typeof NodeSchema> = {
    nodeId: record.nodeId,
    name: record.name,
    publicKey: new Uint8Array(Buffer.from(record.pubKey, 'base64')),
    state: STATE_TO_WIRE[record.state],
    roles: [...rolesToWire(record.roles)],
    labels: record.labels,
    health: healthOf(view),
    createdMs: BigInt(record.createdMs),
    recordRevision: view.recordRevision,
    ...(record.admission === undefined ? {} : { admission: admissionOf(record.admission) }),
  };
  if (status === undefined) return create(NodeSchema, node);
  return create(NodeSchema, {
    ...node,
    status: fromBinary(NodeStatusSchema, Buffer.from(status.status, 'base64')),
    statusUpdatedMs: BigInt(status.updatedMs),
  });
}

function admissionOf(admission: NonNullable<NodeRecord['admission']>) {
  const { akName = '', lockCounter: _, timeMs, ...rest } = admission;
  return { ...rest, akName, timeMs: BigInt(timeMs) };
}

/** A node that never said anything is unknown, not late. */
export function healthOf(view: NodeView): NodeHealth {
  if (view.record.state !== 'UP') return NodeHealth.UNKNOWN;
  if (view.isAlive) return NodeHealth.HEALTHY;
  return view.status === undefined ? NodeHealth.UNKNOWN : NodeHealth.TIMEOUT;
}

export function rolesToWire(roles: readonly Role[]): readonly NodeRole[] {
  return roles.map((role) => ROLE_TO_WIRE[role]);
}

/** Numbers of a caller → roles; unknown ones and impossible sets are refused. */
export function rolesFromWire(numbers: readonly NodeRole[]): readonly Role[] {
  const names = numbers.map(
    (number) => keyOf(ROLE_TO_WIRE, number) ?? refuseField('roles', `unknown role ${number}`),
  );
  return parseRoles(names);
}

export function stateFromWire(number: NodeState): State {
  return keyOf(STATE_TO_WIRE, number) ?? refuseField('state', `unknown state ${number}`);
}

export function refuseField(field: string, why: string): never {
  throw new CuratorError('curator-request-invalid', `reading ${field}: ${why}`, { details: { field } });
}

function keyOf<K extends string, V>(table: Readonly<Record<K, V>>, value: V): K | undefined {
  return (Object.keys(table) as K[]).find((key) => table[key] === value);
}
