/**
 * The role server: workers that only talk through Event Values, each with one writer.
 *
 *     directory ──▶ clusterDirectory ──▶ curator client, balancer
 *
 *     enrolment ──▶ bootstrapData, clusterMembership, clusterSettings, localRoles
 *                        │                │                │              │
 *                   controlplane ◀────────┘           components      rolefetch
 *                        │ localControlPlane               │ localComponents
 *                        └────────────▶ kubernetes ◀───────┘
 *                                           │ kubernetesStatus
 *
 * A worker's heart is a pure plan of its inputs; only the presence of a role starts or stops anything.
 */
export { balancerWorker, type BalancerOptions } from './balancer-worker.ts';
export { componentsWorker, planComponents, type ComponentsWorkerOptions } from './components-worker.ts';
export {
  controlPlaneWorker,
  planControlPlane,
  type ControlPlaneDriver,
  type ControlPlaneStart,
} from './control-plane-worker.ts';
export { directoryWorker, type DirectoryOptions } from './directory-worker.ts';
export { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
export { strayTaintsWorker, type StrayTaintsOptions } from './stray-taints-worker.ts';
export {
  RoleValues,
  type BootstrapData,
  type ClusterSettings,
  type KubernetesStatus,
  type LocalComponents,
  type LocalControlPlane,
  type RoleSet,
} from './role-values.ts';
export { relayWorker, type RelayOptions } from './relay-worker.ts';
export { renewalWorker, type ApplyRenewal, type Renewal, type RenewalOptions } from './renewal-worker.ts';
export { planForMember, roleFetchWorker, type RoleFetchOptions } from './role-fetch-worker.ts';
export { planSigner, signerWorker, type SignerDriver, type SignerOptions } from './signer-worker.ts';
export {
  statusPushWorker,
  type EtcdFacts,
  type StatusFacts,
  type StatusPushOptions,
} from './status-push-worker.ts';
