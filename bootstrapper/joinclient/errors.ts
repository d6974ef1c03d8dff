import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const joinClientErrors = defineErrors({
  'joinclient-no-endpoint': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Nobody has told this machine where a cluster is.',
    fix: 'Name control-plane nodes in `joinEndpoints` of its provisioning, or direct it with `cluster join --node ADDRESS`.',
  },
  'joinclient-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'None of the control-plane nodes that this machine knows let it ask; the message has each one’s answer.',
    fix: 'Check the addresses and that port 9090 of the control-plane nodes can be reached from this machine; it goes on trying by itself.',
  },
  'joinclient-owner-unknown': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning:
      'What answers belongs to an owner whose key this machine was not provisioned with. It was told nothing.',
    fix: 'Compare the owner’s key in the provisioning with the cluster’s; if the endpoint is right and the owner is not, do not trust what answers there.',
  },
  'joinclient-cluster-unverified': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'What answers did not prove that it is a node of the cluster whose name it gives.',
    fix: 'Do not trust what answers at that address; see whether the cluster’s certificates have expired.',
  },
  'joinclient-other-cluster': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'This machine is bound to one cluster, and another one answers.',
    fix: 'Correct the endpoint. To move the machine to the other cluster, run `cluster node reset NODE` in the one it belongs to.',
  },
  'joinclient-not-pinned-cluster': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning:
      'What answers is a cluster of the right owner, and not the one that this machine was provisioned for: `cluster` in its provisioning names another one. It was told nothing.',
    fix: 'Correct the endpoint. To let the machine join the cluster that answers, give it what `cluster node cloud-init` prints there.',
  },
  'joinclient-name-unknown': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The resolver of this machine has no address for the name of a control plane.',
    fix: 'Have the name resolve on this machine (`resolvectl query NAME` there), or write addresses into `joinEndpoints`.',
  },
  'joinclient-clock-off': {
    fault: 'operator',
    exit: 'clock',
    retryable: true,
    meaning:
      'The clock of this machine differs from the cluster’s by more than five minutes; the message has the difference in seconds.',
    fix: 'Set the clock of this machine; it goes on by itself.',
  },
  'joinclient-protocol': {
    fault: 'peer',
    exit: 'precondition',
    retryable: true,
    meaning: 'The cluster sent something that does not belong there.',
    fix: 'Compare the versions of both programs; they may differ by one minor.',
  },
  'joinclient-ticket-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'The ticket is not for this machine, its keys or its cluster. Nothing of it was used.',
    fix: 'Look into the log of cluster-joinservice.service on the control-plane node named in the message.',
  },
  'joinclient-session-closed': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The connection that the machine had proved itself on is gone.',
    fix: 'Nothing: the machine proves itself anew by itself.',
  },
});

export type JoinClientErrorCode = keyof typeof joinClientErrors;

export class JoinClientError extends errorClass(joinClientErrors) {}
