import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const curatorErrors = defineErrors({
  'curator-not-member': fault.operator.refused(
    'The key of the caller is not recorded for a member: the caller was deleted, decommissioned or never admitted.',
    'On a node, join the cluster again with a new key. As an operator, have an owner add your key.',
  ),
  'curator-denied': fault.operator.refused(
    'The caller is a member, but its role does not allow this call.',
    'Ask an operator who has the role that the error names.',
  ),
  'curator-operator-unsigned': fault.operator.refused(
    'No owner has signed this operator with this name, key and role. The record in etcd alone gives no access: somebody may have written it.',
    'An owner checks `cluster operator ls`, removes operators that nobody knows, and signs the others with `cluster sign`, or adds this operator again with `cluster operator add`.',
  ),
  'curator-node-unknown': fault.operator.precondition(
    'No node has this ID or name.',
    'List all nodes with `cluster node ls`.',
  ),
  'curator-request-invalid': fault.operator.usage(
    'A field of the request is invalid. Nothing was changed.',
    'Correct the field that the error names. If the CLI sent it, compare the versions of the CLI and the cluster.',
  ),
  'curator-status-too-often': retryable.peer.refused(
    'A node reports more changes of its status than it may store. The last stored status stays.',
    'Do nothing if it happens once. Otherwise look at the agent of this node: `cluster node logs NODE`; a node whose many changes nobody can explain may be compromised.',
  ),
  'curator-last-control-plane': fault.operator.precondition(
    'This is the last control-plane node. Without it the cluster would be lost. Nothing was changed.',
    'Make another node a control-plane node first.',
  ),
  'curator-last-api-server': fault.operator.precondition(
    'No other control plane has a ready API server. Without the API server of this node, Kubernetes would be unavailable. Nothing was changed.',
    'Wait until another API server is ready (`cluster node show NODE`). Then run the same command again.',
  ),
  'curator-quorum-loss': fault.operator.precondition(
    'Without this node too few members of etcd would be healthy, and the cluster would lose its quorum. Nothing was changed.',
    'Bring the other control planes back, or remove those that are lost with `cluster node remove NODE --lost`. Then run the same command again.',
  ),
  'curator-node-in-use': fault.operator.precondition(
    'The node is not decommissioned yet, or still has roles. Its record can be deleted only after that.',
    'Remove the control-plane role of the node, then decommission the node, then delete its record. `cluster node remove NODE` does all three.',
  ),
  'curator-inventory-names': fault.operator.precondition(
    'The inventory in the configuration still lists the machine that is to be removed. A decommissioned machine is excluded already; its record stays until the entry is gone.',
    'Have an owner run `cluster node remove NODE` again, which removes the entries and signs the configuration.',
  ),
  'curator-configuration-stale': fault.operator.precondition(
    'The configuration was changed since the revision that this change is based on.',
    'Read the newer configuration and make the change again on top of it.',
  ),
  'curator-key-reused': fault.peer.usage(
    'This idempotency key was already used for another request.',
    'Make a new key for each request, and reuse it only to repeat the same request.',
  ),
  'curator-busy': retryable.system.unreachable(
    'Other callers changed the same record again and again.',
    'Run the same command again in a minute. If that fails too, `cluster audit ls --last 20` shows who changes the record.',
  ),
  'curator-no-cluster': retryable.system.precondition(
    'etcd has no record of the cluster yet.',
    'Wait until `cluster init` has finished. If it has, check the log of the first node.',
  ),
});

/** The codes of `CuratorError`. */
export type CuratorErrorCode = keyof typeof curatorErrors;

/** An error of this directory, with one of its codes. */
export class CuratorError extends errorClass(curatorErrors) {}
