/**
 * etcd on a control-plane node, before Kubernetes and independent of it: two clusters of it, one with the records of the
 * cluster itself and one for Kubernetes (`instances.ts`). `EtcdPair` runs both; `Consensus` is one of them.
 *
 * ```
 * start of one: disk facts ─▶ authorities ─▶ leaves ─▶ etcd.json, unit ─▶ serving? ─▶ access control ─▶ RunningConsensus
 *          │ data without its PKI, or the reverse: refused, nothing touched
 * ```
 * Each step makes only what is missing, so a crash between any two is healed by the next start. The role server's
 * controlplane worker calls it and then `bootstrapCluster` with the cluster's first records.
 */
export {
  createClusterRecords,
  saveInitResult,
  readOwnership,
  saveOwnership,
  type NewCluster,
  type NamedKey,
} from './cluster-records.ts';
export type { ConsensusConfig, ConsensusPorts, RunningConsensus } from './consensus-config.ts';
export { Consensus } from './consensus.ts';
export {
  clientEndpointsOf,
  EtcdPair,
  refuseSingleEtcd,
  type EtcdPairConfig,
  type RunningEtcdPair,
} from './etcd-pair.ts';
export { ConsensusError, consensusErrors, type ConsensusErrorCode } from './errors.ts';
export type { RecoverConfig } from './recovery/recover-config.ts';
export { judgeRecoveries, type Surveys } from './recovery/judge-recoveries.ts';
export { recoverMember, surveyWithDataCopy, surveyMembers } from './recovery/recover-member.ts';
export type { MemberOrigin } from './unit/etcd-unit.ts';
export {
  ETCD_INSTANCES,
  ETCD_NAMES,
  ETCD_PORTS,
  KUBERNETES_ETCD,
  QUOTA_BYTES,
  STATE_ETCD,
  type EtcdName,
} from './etcd-instances.ts';
export { consensusLayout, type EtcdClientFiles } from './consensus-layout.ts';
export { certificateFiles } from './pki/ensure-pki.ts';
export { placeEtcdKeys } from './pki/shared-keys.ts';
