/**
 * Kubernetes on this node: pure functions that build configuration and units, and thin drivers for kubeadm,
 * containerd and systemd.
 *
 *   bundle ─▶ components (programs, images) ─▶ container runtime ─▶ pki ─▶ static pods + kubelet ─▶ settings
 *
 * This directory does not decide whether the node has the control-plane role; `roleserve` does.
 */
export { writeAuthenticationConfig } from './apiserver/authentication-config.ts';
export { writeAuthorizationConfig } from './controlplane/authorization-config.ts';
export { followRecordedPersons } from './controlplane/recorded-persons.ts';
export { METADATA_GUARD_UNIT } from './node/metadata-guard.ts';
export { APILB_UNIT, ensureBalancer, orderUpstreams } from './balancer/balancer.ts';
export {
  APILB_HEALTH_SOCKET,
  describeUnhealthyServers,
  readBalancerHealth,
  type ApiServerHealth,
} from './balancer/balancer-health.ts';
export { createHealthProbe, getHttps, probeNode, probeReadyz } from './controlplane/api-probe.ts';
export {
  fetchComponents,
  importImages,
  installBinaries,
  isForRole,
  type ComponentPorts,
} from './node/components.ts';
export { ControlPlane, type ControlPlanePorts } from './controlplane/control-plane.ts';
export {
  ControlPlaneHealth,
  type ControlPlaneHealthQuery,
  type StaticPodHealth,
} from './controlplane/control-plane-health.ts';
export { removeRetiredCas } from './controlplane/retired-cas.ts';
export { readFirstEncryption } from './encryption/encryption-config.ts';
export {
  countObjects,
  rewriteObjects,
  rewriteWith,
  type EncryptedEtcd,
} from './encryption/rewrite-objects.ts';
export { KubernetesError } from './errors.ts';
export { isKubeletClientIssuedBy } from './credentials/kubelet-credentials.ts';
export { Kubelet } from './kubelet/kubelet.ts';
export { Kubeadm } from './kubeadm/kubeadm.ts';
export { API_SERVICE_NAME, serviceAddressesIn } from './service-network.ts';
export { StepCheckpoints } from './step-checkpoints.ts';
export {
  COMPONENT_CLIENTS,
  CONTROL_PLANE_KEY_FILES,
  KUBELET_FILES,
  OPTIONAL_KEY_FILES,
  ROTATED_FILES,
} from './credentials/key-files.ts';
export {
  hasOutdatedServersCa,
  restartForServingCertificate,
  servedCertificateTimes,
  type ServingCertificatePorts,
} from './kubelet/serving-certificate.ts';
export { reconcileControlPlaneTaint } from './taints/control-plane-taint.ts';
export {
  controlPlaneCertificateTimes,
  renewControlPlaneCertificates,
} from './credentials/control-plane-certificates.ts';
export { retireControlPlane, type RetirePorts } from './controlplane/retire-control-plane.ts';
export {
  writeKubeletClientsCa,
  writeKubeletServersCa,
  placeKubernetesKeys,
} from './credentials/shared-keys.ts';
export { readKeyPair, readServersTrust } from './credentials/key-pair.ts';
export { startContainerRuntime } from './node/container-runtime.ts';
export { spreadDns } from './dns/spread-dns.ts';
export { declareLabels, declaresOther, listDeclaredLabels } from './taints/declared-labels.ts';
export {
  declareTaints,
  isOtherTaints,
  listDeclaredTaints,
  type NodeTaints,
} from './taints/declared-taints.ts';
export { listLabeledNodes, removeTaintAndLabels } from './taints/stale-labels.ts';
export {
  apiEndpointOf,
  PATHS,
  type EtcdClientFiles,
  type HostSettings,
  type KubernetesSettings,
} from './settings.ts';
export { CONTAINERD_UNIT, KUBELET_UNIT } from './node/units.ts';
