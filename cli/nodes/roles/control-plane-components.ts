import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
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

/** The API server of a node, as its agent reports it; `isKnown` is false where it has reported nothing. */
export function apiServerOf({ status }: Node): ComponentView {
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
