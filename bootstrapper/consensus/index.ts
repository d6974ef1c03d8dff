/**
 * etcd on a control-plane node. It runs before Kubernetes and independent of it, as two etcd clusters: the state etcd with
 * the records of the cluster itself, and the Kubernetes etcd (`etcd-instances.ts`). `EtcdPair` runs both; `Consensus` runs
 * one of them.
 *
 * ```
 * start of one: disk state ─▶ CAs ─▶ certificates ─▶ etcd.json, unit ─▶ serving? ─▶ access control ─▶ RunningConsensus
 *          │ data without its PKI, or PKI without its data: refused, nothing is changed
 * ```
 * | directory | what |
 * |---|---|
 * | `pki/` | CAs and certificates of etcd, and their rotation |
 * | `unit/` | configuration file and systemd unit |
 * | `membership/` | join, leave, removal of lost members; one node at a time changes the members |
 * | `recovery/` | recovery of a lost quorum, and the epoch that tells the recovered cluster from the old one |
 *
 * Each step creates only what is missing, so the next start completes what a crash interrupted. On the node that creates
 * the cluster, the role server then calls `createClusterRecords`.
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
export { ConsensusError, type ConsensusErrorCode } from './errors.ts';
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
  type EtcdName,
} from './etcd-instances.ts';
export { consensusLayout, type EtcdClientFiles } from './consensus-layout.ts';
export { certificateFiles } from './pki/ensure-pki.ts';
export { placeEtcdKeys } from './pki/shared-keys.ts';
