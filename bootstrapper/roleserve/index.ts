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
export { authenticationWorker } from './authentication-worker.ts';
export { balancerWorker } from './balancer-worker.ts';
export { componentsWorker } from './components-worker.ts';
export {
  type ControlPlaneDriver,
  type ControlPlaneStart,
  controlPlaneWorker,
  type Say,
} from './control-plane-worker.ts';
export { directoryFromWire, directoryWorker } from './directory-worker.ts';
export { nodeLabelsWorker } from './node-labels-worker.ts';
export { nextWithin } from './next-within.ts';
export { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
export { exporterWorker } from './exporter-worker.ts';
export { relayWorker } from './relay-worker.ts';
export { memberWorker, reportWorking, roleFetchWorker } from './role-fetch-worker.ts';
export {
  type BootstrapData,
  type ClusterSettings,
  type KubernetesStatus,
  type LocalControlPlane,
  type RoleSet,
  type RoleState,
  type RoleValues,
  RoleValueStore,
  type RoleValueWriters,
  type BackupCopies,
  type ScheduledBackups,
  settingsFromSpec,
} from './role-values.ts';
export { type SignerDriver, signerWorker } from './signer-worker.ts';
export { strayTaintsWorker } from './stray-taints-worker.ts';
export { NodeMembership, type MemberState } from './node-membership.ts';
