import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const curatorErrors = defineErrors({
  'curator-not-member': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'The key of the caller is on no record of a member: it was deleted, decommissioned or never admitted.',
    fix: 'On a node: join it anew, with a new key. As an operator: have an owner add your key.',
  },
  'curator-denied': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'The caller is a member, but its role does not allow this call.',
    fix: 'Ask somebody with the role named in the message.',
  },
  'curator-node-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no node of this id or name.',
    fix: 'See `cluster node ls` for all of them.',
  },
  'curator-request-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The request cannot mean anything; nothing was changed.',
    fix: 'The message names the field and what would be right.',
  },
  'curator-last-control-plane': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This is the last control-plane node; without it the cluster would be lost.',
    fix: 'Make another node a control-plane node first.',
  },
  'curator-last-api-server': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'No other control-plane node says that its API server is ready; without this one Kubernetes would stand still. Nothing was changed.',
    fix: 'Wait until another one is ready: `cluster node show NODE` says how far it is. Then run the same command again.',
  },
  'curator-quorum-loss': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'Without this node too few members of etcd would be healthy: the cluster would lose its quorum. Nothing was changed.',
    fix: 'Bring the other control planes back, or remove those that are lost with `cluster node remove NODE --lost`. Then run the same command again.',
  },
  'curator-node-in-use': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The node still has what must be taken from it before.',
    fix: 'Take its consensus role first, then decommission it, then delete it.',
  },
  'curator-inventory-names': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The inventory of the configuration names the machine that is to be removed. It is excluded already where it was decommissioned; its record stays until the entry is gone.',
    fix: 'Have an owner run `cluster node remove NODE` again: it takes the entries out and signs the configuration.',
  },
  'curator-configuration-stale': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'Somebody else changed the configuration since the revision that this change was made from.',
    fix: 'Read the newer one, make the change again on top of it.',
  },
  'curator-key-reused': {
    fault: 'peer',
    exit: 'usage',
    retryable: false,
    meaning: 'This idempotency key was used for another request.',
    fix: 'Make a new key for each new request; keep it only for repeating the same one.',
  },
  'curator-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Others changed the same record again and again meanwhile.',
    fix: 'Repeat the call.',
  },
  'curator-no-cluster': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The cluster has no record of itself in etcd yet.',
    fix: 'Wait for the init to end; if it has, see the log of the first node.',
  },
});

export type CuratorErrorCode = keyof typeof curatorErrors;

export class CuratorError extends errorClass(curatorErrors) {}
