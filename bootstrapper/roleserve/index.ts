/**
 * The role server: workers that run what this node's roles need, and share state only through Event Values with one writer each.
 *
 *     directory ──▶ clusterDirectory ──▶ curator client, balancer
 *
 *     enrolment, rolefetch, renewal ──▶ NodeMembership ──▶ bootstrapData, clusterMembership, clusterSettings, localRoles
 *                                                                │              │                     │
 *                                                           controlplane    components ◀──────────────┘
 *                                                                │ localControlPlane │ localComponents
 *                                                                └──▶ kubernetes ◀───┘
 *                                                                        │ kubernetesStatus
 *
 * Each worker decides with a pure plan function of its inputs. Only a role that is assigned or removed starts or stops it.
 */
export { type BalancerOptions, balancerWorker } from './balancer-worker.ts';
export { type ComponentsWorkerOptions, componentsWorker } from './components-worker.ts';
export {
  type ControlPlaneDriver,
  type ControlPlaneStart,
  controlPlaneWorker,
} from './control-plane-worker.ts';
export { type DirectoryOptions, directoryWorker } from './directory-worker.ts';
export { type NodeLabelsOptions, nodeLabelsWorker } from './node-labels-worker.ts';
export { nextWithin } from './next-within.ts';
export { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
export { type RelayOptions, relayWorker } from './relay-worker.ts';
export { type RoleFetchOptions, memberWorker, reportWorking, roleFetchWorker } from './role-fetch-worker.ts';
export {
  type BootstrapData,
  type ClusterSettings,
  type KubernetesStatus,
  type LocalComponents,
  type LocalControlPlane,
  type RoleSet,
  type RoleState,
  type RoleValues,
  RoleValueStore,
  type RoleValueWriters,
  settingsFromSpec,
} from './role-values.ts';
export { type SignerDriver, type SignerOptions, signerWorker } from './signer-worker.ts';
export { type StrayTaintsOptions, strayTaintsWorker } from './stray-taints-worker.ts';
export { NodeMembership, type MemberState } from './node-membership.ts';
