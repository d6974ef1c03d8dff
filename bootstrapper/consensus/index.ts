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
  bootstrapCluster,
  saveInitResult,
  readOwnership,
  saveOwnership,
  type ClusterBirth,
  type NamedKey,
} from './bootstrap-cluster.ts';
export type { ConsensusConfig, ConsensusPorts, RunningConsensus } from './consensus-config.ts';
export { Consensus } from './consensus.ts';
export {
  endpointsAt,
  EtcdPair,
  refuseSingleEtcd,
  type EtcdPairConfig,
  type RunningEtcd,
} from './etcd-pair.ts';
export { ConsensusError, consensusErrors, type ConsensusErrorCode } from './errors.ts';
export type { RecoverConfig } from './recover-config.ts';
export { judgeRecoveries, type Surveys } from './recover-pair.ts';
export { recoverMember, surveyDeeply, surveyMembers } from './recover.ts';
export type { Origin } from './etcd-unit.ts';
export {
  ETCD_INSTANCES,
  ETCD_NAMES,
  ETCD_PORTS,
  KUBERNETES_ETCD,
  QUOTA_BYTES,
  STATE_ETCD,
  type EtcdName,
} from './instances.ts';
export { consensusLayout, type EtcdClientFiles } from './layout.ts';
export { certificateFiles } from './prepare-pki.ts';
export { settleEtcd } from './shared-keys.ts';
