import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const joinClientErrors = defineErrors({
  'joinclient-no-endpoint': retryable.operator.unreachable(
    'This machine knows no endpoint of a cluster.',
    'List control-plane nodes in `joinEndpoints` of the machine’s provisioning, or run `cluster join --node ADDRESS`.',
  ),
  'joinclient-unreachable': retryable.peer.unreachable(
    'The machine reached no known control-plane node, or every node that it reached failed. The message lists every error.',
    'Check the addresses, and that this machine can reach port 9090 of the control-plane nodes. The machine retries automatically.',
  ),
  'joinclient-owner-unknown': retryable.peer.refused(
    'The cluster at this endpoint belongs to an owner whose key is not in the provisioning of this machine. The machine sent no data to that cluster.',
    'Compare the owner key in the provisioning with the owner key of the cluster. If the endpoint is right but the owner is not, do not trust that endpoint.',
  ),
  'joinclient-cluster-unverified': retryable.peer.refused(
    'The peer did not prove that it is a node of the cluster that it names.',
    'Do not trust that address. Check whether the certificates of the cluster have expired (`cluster status`).',
  ),
  'joinclient-other-cluster': retryable.peer.refused(
    'This machine is locked to one cluster, but another cluster responded.',
    'Correct the endpoint. To move the machine to the other cluster, run `cluster node reset NODE` in the workspace of its current cluster.',
  ),
  'joinclient-not-pinned-cluster': retryable.peer.refused(
    'The cluster at this endpoint belongs to the right owner, but `cluster` in the provisioning of this machine names another cluster. The machine sent no data to the cluster that it reached.',
    'Correct the endpoint. To let the machine join this cluster, provision it with the output of `cluster node cloud-init` from the workspace of this cluster.',
  ),
  'joinclient-ca-replaced': retryable.peer.refused(
    'A join service identified itself with a cluster CA that was replaced, or with a new cluster CA that no owner has signed. The machine sent no data to that join service.',
    'Do not trust that address: the machine there has old keys of the cluster. If the cluster was restored from an older backup, provision the machine with the output of `cluster node cloud-init` again.',
  ),
  'joinclient-name-unknown': retryable.operator.unreachable(
    'The resolver of this machine finds no address for a control-plane node.',
    'Make the name resolvable (`resolvectl query NAME` on the machine), or use addresses in `joinEndpoints`.',
  ),
  'joinclient-clock-off': retryable.operator.clock(
    'The clock of this machine differs from the clock of the cluster by more than five minutes.',
    'Set the clock of this machine (`timedatectl`); it then retries automatically.',
  ),
  'joinclient-protocol': retryable.peer.precondition(
    'The cluster sent an unexpected message.',
    'Compare the versions of agent and cluster; they may differ by one minor version.',
  ),
  'joinclient-ticket-invalid': retryable.peer.refused(
    'The ticket is not valid for this machine, its keys or its cluster. No part of it was used.',
    'Look at `journalctl -u cluster-joinservice` on the control-plane node.',
  ),
  'joinclient-settings-unsigned': retryable.peer.refused(
    'No owner has signed the settings in the ticket, which name the programs that this machine would run. No part of the ticket was used.',
    'Run `cluster sign` as an owner and compare what it shows. If the settings were signed before, somebody has changed the records of the cluster or its join service: look at the audit log with `cluster audit ls`.',
  ),
  'joinclient-share-invalid': retryable.peer.refused(
    'The answer with the share of the state disk is not signed by the cluster CA, or not for the TPM of this machine. It was not used.',
    'Look at `journalctl -u cluster-joinservice` on the control plane that the message names, and find out who changed its join service.',
  ),
  'joinclient-session-closed': retryable.peer.unreachable(
    'The attested connection was closed.',
    'Nothing to do: the machine reconnects and attests again automatically.',
  ),
});

/** An error with a code of this directory. */
export class JoinClientError extends errorClass(joinClientErrors) {}
