import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster explain CODE`. */
export const curatorErrors = defineErrors({
  'curator-not-member': {
    fault: 'operator',
    exit: 'refused',
    meaning:
      'The key of the caller is not recorded for a member: it was deleted, decommissioned or never admitted.',
    fix: 'On a node, join the cluster again with a new key. As an operator, have an owner add your key.',
  },
  'curator-denied': {
    fault: 'operator',
    exit: 'refused',
    meaning: 'The caller is a member, but its role does not allow this call.',
    fix: 'Ask an operator who has the role that the error names.',
  },
  'curator-node-unknown': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'No node has this ID or name.',
    fix: 'List all nodes with `cluster node ls`.',
  },
  'curator-request-invalid': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'A field of the request is invalid. Nothing was changed.',
    fix: 'Correct the field that the error names. If the CLI sent it, compare the versions of the CLI and the cluster.',
  },
  'curator-last-control-plane': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'This is the last control-plane node. Without it the cluster would be lost. Nothing was changed.',
    fix: 'Make another node a control-plane node first.',
  },
  'curator-last-api-server': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'No other control plane has a ready API server. Without this one Kubernetes would be unavailable. Nothing was changed.',
    fix: 'Wait until another API server is ready (`cluster node show NODE`). Then run the same command again.',
  },
  'curator-quorum-loss': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'Without this node too few members of etcd would be healthy, and the cluster would lose its quorum. Nothing was changed.',
    fix: 'Bring the other control planes back, or remove those that are lost with `cluster node remove NODE --lost`. Then run the same command again.',
  },
  'curator-node-in-use': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The node still has a state or roles that have to be taken from it first.',
    fix: 'Take its control-plane role, then decommission it, then delete it. `cluster node remove NODE` does all three.',
  },
  'curator-inventory-names': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'The inventory in the configuration still lists the machine that is to be removed. A decommissioned machine is excluded already; its record stays until the entry is gone.',
    fix: 'Have an owner run `cluster node remove NODE` again, which removes the entries and signs the configuration.',
  },
  'curator-configuration-stale': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The configuration was changed since the revision that this change is based on.',
    fix: 'Read the newer configuration and make the change again on top of it.',
  },
  'curator-key-reused': {
    fault: 'peer',
    exit: 'usage',
    meaning: 'This idempotency key was already used for another request.',
    fix: 'Make a new key for each request, and reuse it only to repeat the same request.',
  },
  'curator-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Other callers changed the same record again and again.',
    fix: 'Repeat the call.',
  },
  'curator-no-cluster': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'etcd has no record of the cluster yet.',
    fix: 'Wait until `cluster init` has finished. If it has, check the log of the first node.',
  },
});

/** The codes of `CuratorError`. */
export type CuratorErrorCode = keyof typeof curatorErrors;

/** An error of this directory, with one of its codes. */
export class CuratorError extends errorClass(curatorErrors) {}
