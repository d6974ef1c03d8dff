import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { printable } from '../../../internal/printable/index.ts';

const API_SERVER = 'kube-apiserver';
/** The components of a Kubernetes control plane. */
export const COMPONENT_NAMES = [API_SERVER, 'kube-controller-manager', 'kube-scheduler'] as const;

/** One component of a node's Kubernetes control plane, as its agent reports it. */
export interface ComponentView {
  readonly name: (typeof COMPONENT_NAMES)[number];
  /** Whether the agent has reported this component. */
  readonly isKnown: boolean;
  readonly isReady: boolean;
  readonly sinceMs: number | undefined;
  /** Why the component is not ready. */
  readonly why: string;
}

/** All components; one that the agent does not report is not ready. */
export function controlPlaneComponents({ status }: Node): readonly ComponentView[] {
  return COMPONENT_NAMES.map((name) => componentOf(status, name));
}

/** The API server of a node, as its agent reports it; `isKnown` is false if it has reported nothing. */
export function apiServerOf({ status }: Node): ComponentView {
  return componentOf(status, API_SERVER);
}

function componentOf(status: Node['status'], name: (typeof COMPONENT_NAMES)[number]): ComponentView {
  const component = status?.controlPlane.find((each) => each.name === name);
  if (component === undefined)
    return {
      ...{ name, isKnown: false, isReady: false, sinceMs: undefined },
      why: 'its agent has not reported it yet',
    };
  const { ready, sinceMs, why } = component;
  return { name, isKnown: true, isReady: ready, sinceMs: Number(sinceMs), why: printable(why) };
}
