import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { printable } from '../../../internal/printable/index.ts';

const API_SERVER = 'kube-apiserver';
const NAMES = [API_SERVER, 'kube-controller-manager', 'kube-scheduler'] as const;

/** One part of a node's control plane of Kubernetes, by the node's own word. */
export interface ComponentView {
  readonly name: (typeof NAMES)[number];
  /** Whether the node has said anything about it. */
  readonly isKnown: boolean;
  readonly isReady: boolean;
  readonly sinceMs: number | undefined;
  /** Why it is not ready. */
  readonly why: string;
}

/** All of them: what a node does not name is not ready. */
export function controlPlaneComponents({ status }: Node): readonly ComponentView[] {
  return NAMES.map((name) => partOf(status, name));
}

function apiServerOf({ status }: Node): ComponentView {
  return partOf(status, API_SERVER);
}

function partOf(status: Node['status'], name: (typeof NAMES)[number]): ComponentView {
  const part = status?.controlPlane.find((each) => each.name === name);
  if (part === undefined)
    return {
      ...{ name, isKnown: false, isReady: false, sinceMs: undefined },
      why: 'its agent says nothing about it yet',
    };
  const { ready, sinceMs, why } = part;
  return { name, isKnown: true, isReady: ready, sinceMs: Number(sinceMs), why: printable(why) };
}

/**
 * Why Kubernetes would be without an API server when this node runs none any more; undefined: another one is ready, or this
 * one serves none: it is lost, or says so itself.
 */
export function apiServerLossReason(node: Node, nodes: readonly Node[]): string | undefined {
  const own = apiServerOf(node);
  if (node.health !== NodeHealth.HEALTHY || (own.isKnown && !own.isReady)) return undefined;
  const others = nodes.filter(
    ({ nodeId, state, roles }) =>
      nodeId !== node.nodeId && state === NodeState.UP && roles.includes(NodeRole.KUBERNETES_CONTROLLER),
  );
  const reasons: string[] = [];
  for (const other of others) {
    const why = other.health === NodeHealth.HEALTHY ? apiServerOf(other).why : 'the node does not beat';
    if (why === '') return undefined;
    reasons.push(`${other.name}: ${why}`);
  }
  const named = reasons.length === 0 ? 'there is none' : reasons.join(', ');
  return `no other control plane has an API server that is ready (${named}): wait for one, \`cluster node show NODE\` says how far it is`;
}
