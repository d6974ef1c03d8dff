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
export { type BalancerOptions, balancerWorker } from './balancer-worker.ts';
export { settingsFromSpec } from './cluster-settings.ts';
export { type ComponentsWorkerOptions, componentsWorker, planComponents } from './components-worker.ts';
export {
  type ControlPlaneDriver,
  type ControlPlaneStart,
  controlPlaneWorker,
  planControlPlane,
} from './control-plane-worker.ts';
export { type DirectoryOptions, directoryWorker } from './directory-worker.ts';
export { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
export { type RelayOptions, relayWorker } from './relay-worker.ts';
export { type RoleFetchOptions, planForMember, roleFetchWorker } from './role-fetch-worker.ts';
export {
  type BootstrapData,
  type ClusterSettings,
  type KubernetesStatus,
  type LocalComponents,
  type LocalControlPlane,
  type RoleSet,
  type RoleValues,
  RoleValueStore,
  type RoleValueWriters,
} from './role-values.ts';
export { type SignerDriver, type SignerOptions, planSigner, signerWorker } from './signer-worker.ts';
export { type StrayTaintsOptions, strayTaintsWorker } from './stray-taints-worker.ts';
export { NodeMembership, type MemberState } from './node-membership.ts';
