/**
 * Domain: the cluster's own records in etcd, below `/cluster/`. The bootstrapper writes the first ones, the curator
 * all others.
 *
 * ```
 * meta/cluster          the cluster: id, epoch, CA           written once
 * nodes/ID/record       decided about a node                 curator
 * nodes/ID/status       what a node says about itself        curator, for the node
 * nodes/ID/heartbeat    there while its lease lives          curator, for the node
 * node-names/NAME       → ID, so that names are unique       with the node
 * operators/KEY         who administers                      curator
 * configuration/current the operator's document              curator
 * init/result           for the owner, as often as asked     first node
 * mutations/CALLER/KEY  has happened, on a lease             with each mutation
 * audit/TIME-RANDOM     decisions, on a lease                with each mutation
 * ```
 */
export { RecordError, recordErrors, type RecordErrorCode } from './errors.ts';
export {
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  INIT_RESULT_KEY,
  nodeNameKey,
  NODES_PREFIX,
  OPERATORS_PREFIX,
  parseNodeKey,
  records,
  type NodePart,
  type RecordKind,
} from './kinds.ts';
export {
  type AuditRecord,
  type ClusterRecord,
  type ConfigurationRecord,
  type HeartbeatRecord,
  type InitResultRecord,
  type MutationRecord,
  type NodeRecord,
  type OperatorRecord,
  type OperatorRole,
  type StatusRecord,
} from './shapes.ts';
