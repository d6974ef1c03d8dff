import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { RoleName } from '../../../internal/role/index.ts';
import { namesFromRoles } from '../roles/role-names.ts';

/** What is deleted or stopped on a node by a role change; empty if it only gains roles. Pure. */
export function lossesOfRoleChange(
  node: Pick<Node, 'roles'>,
  wanted: readonly RoleName[],
): readonly string[] {
  const lost = namesFromRoles(node.roles).filter((word) => !wanted.includes(word));
  return [
    ...(lost.includes('control-plane')
      ? ['role control-plane: its API server and controllers stop; its etcd member and its keys are deleted']
      : []),
    ...(lost.includes('worker')
      ? ['role worker: its pods are evicted, and only control-plane pods may run on it']
      : []),
  ];
}

/** How a node is removed. */
export interface RemovalMode {
  readonly kind: 'remove' | 'reset';
  /** Whether the machine is lost, so that it cannot wipe its disk. */
  readonly isLost: boolean;
  /** Whether the shared keys are replaced. */
  readonly replacesKeys: boolean;
}

/** The data that is deleted when a node is removed or reset. Pure. */
export function lossesOfRemoval(
  node: Pick<Node, 'nodeId' | 'roles'>,
  { kind, isLost, replacesKeys }: RemovalMode,
): readonly string[] {
  const isControlPlane = node.roles.includes(NodeRole.CONSENSUS_MEMBER);
  const isWorker = node.roles.includes(NodeRole.KUBERNETES_WORKER);
  return [
    `its membership: ${node.nodeId} is deleted and refused; ${
      kind === 'reset'
        ? 'the machine needs a new approval to join again'
        : 'the machine is refused until an owner readmits it, and then needs a new approval'
    }`,
    ...(isControlPlane ? ['its API server, its curator and its etcd member, with their data'] : []),
    ...(isWorker && !isLost ? ['its pods, by eviction'] : []),
    ...(isWorker && isLost ? ['its pods, without an eviction'] : []),
    ...(kind === 'reset'
      ? ['all data of the cluster on the machine: state, keys, images, and the data of pods on its disk']
      : []),
    ...(replacesKeys
      ? ['the keys that all control planes share: they are replaced, and old kubeconfigs are refused']
      : []),
  ];
}
