import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const joinClientErrors = defineErrors({
  'joinclient-no-endpoint': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This machine knows no endpoint of a cluster.',
    fix: 'List control-plane nodes in `joinEndpoints` of its provisioning, or run `cluster join --node ADDRESS`.',
  },
  'joinclient-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'No known control-plane node could be reached, or each one failed; the message lists every error.',
    fix: 'Check the addresses, and that this machine can reach port 9090 of the control-plane nodes; it retries automatically.',
  },
  'joinclient-owner-unknown': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning:
      'The cluster at this endpoint belongs to an owner whose key is not in the provisioning of this machine. The machine sent it nothing.',
    fix: 'Compare the owner key in the provisioning with the one of the cluster. If the endpoint is right but the owner is not, do not trust that endpoint.',
  },
  'joinclient-cluster-unverified': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'The peer did not prove that it is a node of the cluster that it names.',
    fix: 'Do not trust that address. Check whether the certificates of the cluster have expired (`cluster status`).',
  },
  'joinclient-other-cluster': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'This machine is locked to one cluster, but another one responded.',
    fix: 'Correct the endpoint. To move the machine to the other cluster, run `cluster node reset NODE` in its current one.',
  },
  'joinclient-not-pinned-cluster': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning:
      'The cluster belongs to the right owner, but `cluster` in the provisioning of this machine names another one. The machine sent it nothing.',
    fix: 'Correct the endpoint. To let the machine join this cluster, provision it with the output of `cluster node cloud-init` there.',
  },
  'joinclient-name-unknown': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The resolver of this machine finds no address for a control-plane node.',
    fix: 'Make the name resolvable (`resolvectl query NAME` on the machine), or use addresses in `joinEndpoints`.',
  },
  'joinclient-clock-off': {
    fault: 'operator',
    exit: 'clock',
    retryable: true,
    meaning: 'The clock of this machine differs from the clock of the cluster by more than five minutes.',
    fix: 'Set the clock of this machine (`timedatectl`); it then retries automatically.',
  },
  'joinclient-protocol': {
    fault: 'peer',
    exit: 'precondition',
    retryable: true,
    meaning: 'The cluster sent an unexpected message.',
    fix: 'Compare the versions of agent and cluster; they may differ by one minor version.',
  },
  'joinclient-ticket-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'The ticket is not valid for this machine, its keys or its cluster. No part of it was used.',
    fix: 'Look at `journalctl -u cluster-joinservice` on the control-plane node.',
  },
  'joinclient-session-closed': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The attested connection was closed.',
    fix: 'Nothing to do: the machine reconnects and attests again automatically.',
  },
});

/** A code of this directory's errors. */
export type JoinClientErrorCode = keyof typeof joinClientErrors;

/** An error with a code of this directory. */
export class JoinClientError extends errorClass(joinClientErrors) {}
