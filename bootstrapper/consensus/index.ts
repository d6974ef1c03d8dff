/**
 * etcd on a control-plane node. etcd starts before Kubernetes and does not depend on it. There are two etcd
 * clusters: the state etcd stores the records of the cluster itself, and the Kubernetes etcd stores the
 * objects of Kubernetes (`etcd-instances.ts`). `EtcdPair` runs both members of this node; `startMember` runs
 * one member.
 *
 * ```
 * start of one: disk state ─▶ CAs ─▶ certificates ─▶ etcd.json, unit ─▶ serving? ─▶ access control ─▶ RunningConsensus
 *          │ data without its PKI, or PKI without its data: refused, nothing is changed
 * ```
 *
 * - `pki/`: CAs and certificates of etcd, and their rotation
 * - `unit/`: configuration file and systemd unit
 * - `membership/`: join, leave, removal of lost members; one node at a time changes the members
 * - `content/`: comparison of the content of all members
 * - `recovery/`: recovery of a lost quorum, and the epoch that distinguishes the recovered cluster from the
 * old one
 *
 * Each step creates only missing files, so the next start completes the steps that a crash interrupted. On
 * the node that creates the cluster, the role server then calls `createClusterRecords`.
 */
export {
  createClusterRecords,
  saveInitResult,
  readOwnership,
  saveOwnership,
  type NewCluster,
  type NamedKey,
} from './cluster-records.ts';
export { ContentMonitor, type EtcdContent } from './content/content-monitor.ts';
export type { RunningConsensus } from './consensus-config.ts';
export { startMember } from './consensus.ts';
export {
  clientEndpointsOf,
  EtcdPair,
  refuseSingleEtcd,
  type EtcdPairConfig,
  type RunningEtcdPair,
} from './etcd-pair.ts';
export { ConsensusError } from './errors.ts';
export { decideRecoveries, judgeRecoveries, type Surveys } from './recovery/judge-recoveries.ts';
export { type RecoverConfig } from './recovery/data-copy.ts';
export { recoverMember, surveyWithDataCopy, surveyMembers } from './recovery/recover-member.ts';
export {
  PROOF_ETCD_UNIT,
  PROOF_RESTORE_UNIT,
  removeRestoredSnapshots,
  withRestoredSnapshot,
  type SnapshotToRestore,
} from './recovery/restored-etcd.ts';
export { withThrowawayPlace, type ThrowawayKind, type ThrowawayPlace } from './recovery/throwaway-place.ts';
export { raiseEpoch, readEpoch, writeEpoch } from './recovery/epoch.ts';
export { restoreFirstMember } from './recovery/restore-snapshot.ts';
export { forgetKubernetesNodes } from './restored-kubernetes.ts';
export { restoreClusterRecords } from './restored-records.ts';
export {
  ETCD_INSTANCES,
  ETCD_NAMES,
  ETCD_PORTS,
  KUBERNETES_ETCD,
  QUOTA_BYTES,
  type EtcdName,
} from './etcd-instances.ts';
export { consensusLayout, type EtcdClientFiles, type KeyPairFiles } from './consensus-layout.ts';
export { certificateFiles } from './pki/ensure-pki.ts';
export { connectAsRoot } from './unit/run-etcd.ts';
export { placeEtcdKeys } from './pki/shared-keys.ts';
