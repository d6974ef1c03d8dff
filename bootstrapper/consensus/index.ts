/**
 * etcd on a control-plane node, before Kubernetes and independent of it.
 *
 * ```
 * start: disk facts ─▶ authorities ─▶ leaves ─▶ etcd.json, unit ─▶ serving? ─▶ access control ─▶ RunningConsensus
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
export { ConsensusError, consensusErrors, type ConsensusErrorCode } from './errors.ts';
export type { RecoverConfig } from './recover-config.ts';
export { judgeRecovery, recoverAlone, surveyMembers } from './recover.ts';
export { DEFAULT_QUOTA_BYTES, ETCD_PORTS, ETCD_UNIT, type ListenPorts, type Origin } from './etcd-unit.ts';
export { consensusLayout, ETCD_USERS, type EtcdClientFiles } from './layout.ts';
export { certificateFiles } from './prepare-pki.ts';
export { settleEtcd } from './shared-keys.ts';
