/**
 * Kubernetes on this node: pure builders of configuration and units, thin drivers over kubeadm, containerd and systemd.
 *
 *   bundle ─▶ components (programs, images) ─▶ container runtime ─▶ pki ─▶ static pods + kubelet ─▶ settings
 *
 * Nothing here decides whether the node has the role; `roleserve` does.
 */
export { placeAuthorization } from './authorization.ts';
export { METADATA_GUARD_UNIT } from './metadata-guard.ts';
export { serveBalancer, upstreamsOf, type ApiServerHost } from './balancer.ts';
export {
  APILB_HEALTH_SOCKET,
  describeUnhealthy,
  readBalancerHealth,
  type BalancedServer,
} from './balancer-health.ts';
export {
  createHealthProbe,
  isListening,
  probeNode,
  probeReadyz,
  type ApiProbe,
  type NodeProbe,
} from './api-probe.ts';
export {
  bringComponents,
  importImages,
  installBinaries,
  installPath,
  isForNode,
  isForRole,
  type ComponentPorts,
} from './components.ts';
export {
  ControlPlane,
  stopKubernetes,
  type ControlPlaneOptions,
  type ControlPlanePorts,
} from './control-plane.ts';
export { ControlPlaneHealth, type ControlPlaneQuestion, type PartHealth } from './control-plane-health.ts';
export { KubernetesError, kubernetesErrors, type KubernetesErrorCode } from './errors.ts';
export { isKubeletClientOf } from './kubelet-credentials.ts';
export { Kubelet, type KubeletPorts } from './kubelet.ts';
export { Kubeadm } from './kubeadm.ts';
export { Marks } from './marks.ts';
export {
  CLIENTS,
  CONTROL_PLANE_KEY_FILES,
  KUBELET_CLIENTS_CA,
  KUBELET_FILES,
  OPTIONAL_KEY_FILES,
  REPLACED,
} from './material.ts';
export { restartKubeletServing, shownServingTimes, type KubeletServingPorts } from './kubelet-serving.ts';
export { followWorkloads } from './ordinary-pods.ts';
export { ownCertificateTimes, renewOwnCertificates } from './own-certificates.ts';
export { retireControlPlane, type RetirePorts } from './retire.ts';
export { placeKubeletClientsCa, settleKubernetes } from './shared-keys.ts';
export { startContainerRuntime } from './runtime.ts';
export { listMarkedNodes, unmarkNode } from './stray-marks.ts';
export {
  API_PORT,
  PATHS,
  type EtcdClientFiles,
  type HostSettings,
  type KubernetesSettings,
} from './settings.ts';
export { APILB_UNIT, CONTAINERD_UNIT, KUBELET_UNIT } from './units.ts';
