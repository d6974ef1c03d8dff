import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

const GIVE_UP_NODE =
  'Or remove the node with `cluster node remove NODE --lost`, readmit it as an owner with `cluster node readmit NODE`, and reset the machine as root (`cluster node reset --help` shows how).';

/** Error codes for the etcd members of a control plane. */
export const consensusErrors = defineErrors({
  'consensus-pki-missing': fault.system.needsReset(
    'The data of etcd is on this disk, but a CA certificate or CA key of etcd is missing. Nothing was changed.',
    `Restore the named file from a backup of the disk. ${GIVE_UP_NODE}`,
  ),
  'consensus-pki-damaged': fault.system.needsReset(
    'A CA certificate or CA key of etcd is damaged. Nothing was changed.',
    `Restore the named file from a backup of the disk. ${GIVE_UP_NODE}`,
  ),
  'consensus-data-missing': fault.system.needsReset(
    'This node has been a member of etcd, but its data is missing. The agent does not start an empty etcd in its place.',
    `Restore the data directory from a backup of the disk. ${GIVE_UP_NODE} It then joins again.`,
  ),
  'consensus-not-ready': retryable.system.unreachable(
    'etcd runs on this node but answers no requests: it is starting, or it has no quorum.',
    'With several control-plane nodes, start a majority of them, which etcd needs. If a majority runs, or the cluster has only one control-plane node, read the logs of etcd: `journalctl -u cluster-etcd-state -u cluster-etcd-kubernetes`.',
  ),
  'consensus-keys-awaited': retryable.system.partial(
    'This node becomes a member of etcd, but does not have the CA keys of etcd yet.',
    'Wait: the node requests the keys by itself. `cluster explain NODE` shows why the node gets no keys.',
  ),
  'consensus-no-peers': retryable.system.unreachable(
    'This node is to join etcd, but knows no other control-plane node.',
    'Start a control-plane node, and open ports 9091, 2379 and 2382 to it from this node.',
  ),
  'consensus-slot-lost': retryable.system.partial(
    'This node did not renew its slot for changing the members of etcd in time; another node may change them now.',
    'Wait: the node requests the slot again.',
  ),
  'consensus-slot-damaged': fault.system.internal(
    'The record of an interrupted change of the members of etcd cannot be read.',
    'Compare `etcdctl member list` with the nodes of the cluster, remove a learner that belongs to no node, then delete the named key.',
  ),
  'consensus-address-taken': retryable.operator.precondition(
    'Another member of etcd has the address of this node. That member belongs to an earlier node at this address that was not removed.',
    'Remove the old node with `cluster node remove`; this node then continues by itself.',
  ),
  'consensus-outdated': retryable.system.partial(
    'The quorum was recovered without this member: another control plane has a newer epoch, so the data of this member is outdated.',
    'Wait: this member deletes its data and joins again.',
  ),
  'consensus-snapshot-invalid': fault.system.unhealthy(
    'etcdutl could not restore a snapshot that this node has just taken of its own etcd. The cluster is not changed.',
    'Look at the last output in the message: usually the disk is full. Check the etcd members with `cluster doctor`.',
  ),
  'consensus-not-recoverable': fault.operator.precondition(
    'The quorum is not lost, or a recovery from this member would lose more data than a recovery from another member. Nothing was changed.',
    'Run the recovery on the member with the highest raft index, or not at all if etcd has a leader.',
  ),
  'consensus-recovering': retryable.operator.partial(
    'A recovery of the quorum was requested on this node; the agent stops and recovers when it starts again.',
    'Wait: systemd starts the agent again.',
  ),
  'consensus-removed': retryable.system.partial(
    'This member was removed from etcd before it had caught up.',
    'Wait: the node joins etcd again.',
  ),
  'consensus-node-removed': retryable.operator.partial(
    'The cluster was restored or recovered while this control plane was away, and this node is not a member any more. It keeps its data and does not join.',
    'To let the machine join as a new node, reset it as root on the machine (see `cluster node reset --help`), then run `cluster node readmit` as an owner.',
  ),
  'consensus-last-member': retryable.operator.precondition(
    'This node lost its role but is the last voting member of etcd; without it the cluster has no data.',
    'Promote another node with `cluster node set-role`; this node then leaves by itself. Or give this node its former role back.',
  ),
  'consensus-quorum': retryable.system.unhealthy(
    'This node is to leave etcd, but too few other members answer: without this node, etcd would have no quorum.',
    'Start the other control-plane nodes, or remove lost ones with `cluster node remove NODE --lost`; this node then leaves by itself.',
  ),
  'consensus-single-etcd': fault.operator.precondition(
    'This control plane was made by a release in which Kubernetes and the cluster shared one etcd. This release keeps them apart and does not convert the data. Nothing was changed; etcd and Kubernetes keep running.',
    'Install the agent package of the earlier release to continue with this cluster. To upgrade, create a new cluster with this release, move the workloads to it, then reset the old machines.',
  ),
  'consensus-other-cluster': fault.operator.precondition(
    'The etcd of this node already holds the records of another cluster.',
    'Use the workspace of that cluster. If the cluster no longer exists, reset the machine as root (`cluster node reset --help` shows how).',
  ),
  'consensus-worker-not-kept': fault.operator.precondition(
    'A worker that should keep its pods is no worker of the backup, or it was removed. The restored cluster was not created.',
    'Reset the machine as root (`cluster node reset --help` shows how), and repeat `cluster restore` without this --keep-worker.',
  ),
});

/** Error code of a `ConsensusError`. */
export type ConsensusErrorCode = keyof typeof consensusErrors;

/** An etcd member that cannot start, join, leave or be recovered. */
export class ConsensusError extends errorClass(consensusErrors) {}
