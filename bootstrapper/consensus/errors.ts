import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const consensusErrors = defineErrors({
  'consensus-pki-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning: "etcd's data is on this disk, but a file of etcd's own PKI is not. Nothing was touched.",
    fix: 'Restore the file named in the message from a backup of the disk. Or give the node up: `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'consensus-pki-damaged': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning: "A file of etcd's own PKI is there but cannot be what it should be. Nothing was touched.",
    fix: 'Restore the file named in the message from a backup of the disk. Or give the node up: `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'consensus-data-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'This node has been a member of etcd, but its data is gone. It does not start an empty etcd in its place.',
    fix: 'Restore the data directory from a backup of the disk. Or give the node up: `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then make the machine fresh as root on it (`cluster node reset --help` shows how) and let it join anew.',
  },
  'consensus-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'etcd runs on this node but does not serve.',
    fix: 'The message says what was waited for and the last error; with several control-plane nodes, see that most of them run.',
  },
  'consensus-keys-awaited': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: "This node is to be a member of etcd, but does not have the keys of etcd's own PKI yet.",
    fix: 'Nothing while the node asks for them; `cluster explain NODE` shows why it gets none.',
  },
  'consensus-no-peers': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This node is to join etcd, but knows of no other control-plane node.',
    fix: 'See that a control-plane node runs and that this node reaches it on ports 9091, 2379 and 2382.',
  },
  'consensus-slot-lost': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'This node did not prove in time that it still changes the members of etcd; another one may now.',
    fix: 'Nothing: it takes its turn again.',
  },
  'consensus-slot-damaged': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'What the last node that changed the members of etcd left behind cannot be read.',
    fix: 'Compare `etcdctl member list` with the nodes of the cluster, remove a learner that belongs to none, then delete the key named in the message.',
  },
  'consensus-address-taken': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning:
      'Another member of etcd has the address of this node: a node that was here before and was not removed.',
    fix: 'Remove the old node with `cluster node remove`; this one goes on by itself.',
  },
  'consensus-outdated': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      "The cluster was recovered without this member: another control plane has a newer epoch, and what this one's etcd holds is not the cluster's any more.",
    fix: 'Nothing: this member gives its data up and joins anew.',
  },
  'consensus-not-recoverable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'A recovery of the quorum from this member would lose more than it must, or is not needed. Nothing was changed.',
    fix: 'The message says why, and from which member to recover instead.',
  },
  'consensus-recovering': {
    fault: 'operator',
    exit: 'partial',
    retryable: true,
    meaning: 'A recovery of the quorum was ordered here; the agent ends and does so when it starts again.',
    fix: 'Nothing: it goes on by itself.',
  },
  'consensus-removed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'This member was removed from etcd while it was on its way in.',
    fix: 'Nothing: it begins anew.',
  },
  'consensus-last-member': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning:
      'The role of this node went, but it is the last voting member of etcd: leaving would end the cluster.',
    fix: 'Make another node a control-plane node; this one leaves by itself then. Or give it its role back.',
  },
  'consensus-quorum': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: true,
    meaning:
      'This node is to leave etcd, but so many other members do not answer that the rest could decide nothing.',
    fix: 'Bring the other control-plane nodes back, or remove those that are gone for good; this one leaves by itself then.',
  },
  'consensus-single-etcd': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'This control plane was made by a release in which Kubernetes and the cluster shared one etcd. This release keeps them apart and does not convert the data. Nothing was touched; etcd and Kubernetes continue to run as they are.',
    fix: 'Install the agent package of the earlier release again to continue with this cluster. To move on, make a new cluster with this release, move the workloads to it, then reset the old machines.',
  },
  'consensus-other-cluster': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The etcd on this node already holds another cluster.',
    fix: 'Use the init id and workspace of that cluster. If it is no more, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
});

export type ConsensusErrorCode = keyof typeof consensusErrors;

export class ConsensusError extends errorClass(consensusErrors) {}
