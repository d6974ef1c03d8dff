import { listPodsOn, type KubeClient } from '../../../internal/kube/index.ts';
import { COMPONENT_NAMES } from './control-plane-components.ts';

/**
 * A pod of the node's control plane that Kubernetes does not show as ready: its kubelet reports it some seconds after the component has
 * started, and shows it some seconds longer than it runs. Undefined if there is none.
 */
export async function missingPod(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const names = COMPONENT_NAMES.map((component) => `${component}-${nodeName}`);
  const pod = (await listPodsOn(client, nodeName, signal)).find(
    ({ namespace, name, isReady }) => namespace === 'kube-system' && names.includes(name) && !isReady,
  );
  return pod && `Kubernetes does not show the pod ${pod.name} as ready`;
}
