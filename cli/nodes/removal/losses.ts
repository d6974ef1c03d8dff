import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { namesFromRoles, type RoleName } from '../roles/role-names.ts';

/** What a node no longer has after its roles were changed. Empty when it only gets more. Pure. */
export function lossesOfRoleChange(
  node: Pick<Node, 'roles'>,
  wanted: readonly RoleName[],
): readonly string[] {
  const lost = namesFromRoles(node.roles).filter((word) => !wanted.includes(word));
  return [
    ...(lost.includes('control-plane')
      ? [
          'the role control-plane: its API server and controllers stop, its etcd member and its keys are deleted',
        ]
      : []),
    ...(lost.includes('worker')
      ? ['the role worker: its pods are evicted, and no ordinary pod runs on it']
      : []),
  ];
}

export interface RemovalMode {
  readonly kind: 'remove' | 'reset';
  /** The machine is gone already. */
  readonly isLost: boolean;
  /** Whether the keys are replaced that control planes share. */
  readonly replacesKeys: boolean;
}

/** What is gone for good when a node has left the cluster. Pure. */
export function lossesOfRemoval(
  node: Pick<Node, 'nodeId' | 'roles'>,
  { kind, isLost, replacesKeys }: RemovalMode,
): readonly string[] {
  const isControlPlane = node.roles.includes(NodeRole.CONSENSUS_MEMBER);
  const isWorker = node.roles.includes(NodeRole.KUBERNETES_WORKER);
  return [
    `its membership: ${node.nodeId} is deleted and refused from then on; the machine needs a new approval to come back`,
    ...(isControlPlane ? ['its API server, its curator and its etcd member, with their data'] : []),
    ...(isWorker && !isLost ? ['its pods: they are evicted'] : []),
    ...(isWorker && isLost ? ['its pods, without an eviction'] : []),
    ...(kind === 'reset'
      ? ['everything of the cluster on the machine: state, keys, images, and what pods keep on its disk']
      : []),
    ...(replacesKeys
      ? ['the keys that all control planes share: they are replaced, and kubeconfigs made before are refused']
      : []),
  ];
}
