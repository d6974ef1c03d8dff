import { defineErrors, errorClass, type ErrorSpec } from '../../internal/errors/index.ts';

/** Not retryable: the machine would be refused again unless something about the machine changes. */
function final(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}

/** Retryable: something outside the machine can change, and then the same request succeeds. */
function passing(meaning: string, fix: string, fault: ErrorSpec['fault'] = 'operator'): ErrorSpec {
  return { fault, exit: 'refused', retryable: true, meaning, fix };
}

const CHECK_VERSIONS = 'Compare the versions of both programs. They may differ by one minor version.';

/**
 * Why a machine waits or is refused. The machine learns only the code; the trace and the audit log contain
 * the full reason.
 */
export const joinErrors = defineErrors({
  'join-awaiting-approval': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The machine has proved its identity. An operator has to approve it.',
    fix: 'Compare the fingerprint with the one on the console of the machine, then run `cluster node approve MACHINE`.',
  },
  'join-awaiting-owner': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The machine is to become a control plane, and no owner of the cluster has signed that yet.',
    fix: 'Have an owner run `cluster node approve MACHINE --roles control-plane`, or `cluster sign` where the inventory lists the machine.',
  },
  'join-message-malformed': final(
    'The machine sent a message that is malformed or out of order.',
    CHECK_VERSIONS,
  ),
  'join-key-unproved': final(
    'The machine did not prove, in this session, that it holds the key it names.',
    CHECK_VERSIONS,
  ),
  'join-keys-invalid': final(
    'The keys for the ticket are malformed, or the machine did not sign them.',
    CHECK_VERSIONS,
  ),
  'join-hung-up': {
    ...{ fault: 'peer', exit: 'unreachable', retryable: true },
    meaning: 'The machine ended the call before it was served.',
    fix: 'Do nothing: a machine that contacts several control planes at once keeps one of the calls.',
  },
  'join-silent': passing(
    'The machine did not send its next message in time.',
    'Check the load of the machine and of its TPM.',
    'peer',
  ),
  'join-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'Too many machines contact this control plane at the same time, or too many wait for a decision.',
    fix: 'Do nothing: the machine retries by itself. If this persists, approve or refuse the machines that `cluster node ls --joins` lists.',
  },
  'join-clock-off': passing(
    'The clock of the machine differs from the cluster’s by more than five minutes, so certificates would not be valid there.',
    'Set the clock of the machine. `cluster explain` shows the difference in seconds.',
    'peer',
  ),
  'join-evidence-mismatch': final(
    'The evidence is not of the attestation key or the machine key that the machine enrols.',
    'Do not trust this machine. Find out which machine answers at its address.',
  ),
  'join-evidence-outdated': passing(
    'The evidence of this session was verified with an attestation policy that is no longer the current one.',
    'Do nothing: the machine sends new evidence by itself.',
    'peer',
  ),
  'join-not-locked': passing(
    'The lock register (PCR) of the machine does not show that the machine is bound to this cluster.',
    'Restart bootstrapper.service on the machine. If this persists, reset the machine as root (`cluster node reset --help` shows how) and let it join again.',
    'peer',
  ),
  'join-machine-copied': final(
    'The clock of the machine’s TPM went backward, or ran faster than time: the TPM state was restored from a copy, or a copy of it runs elsewhere.',
    'Find out which machine is the real one. Run `cluster node remove NODE --lost`, have an owner run `cluster node readmit NODE`, reset the real machine as root (`cluster node reset --help` shows how) and let it join again. Replace a virtual TPM that was copied.',
  ),
  'join-locked-again': final(
    'The lock counter of the TPM changed since the machine joined: the machine was wiped and its disk restored, or it joined another cluster in between.',
    'Run `cluster node remove NODE --lost`, have an owner run `cluster node readmit NODE`, reset the machine as root (`cluster node reset --help` shows how) and let it join again.',
  ),
  'join-identity-unproved': passing(
    'The join policy admits only machines whose hardware is endorsed, and neither a trusted manufacturer nor the inventory vouches for this one.',
    'Add the manufacturer’s root or the identity of the machine to the configuration, or let operators decide (`join.policy: approve`).',
  ),
  'join-identity-changed': final(
    'The key is recorded for another machine than the one that shows it.',
    'If the TPM of the machine was replaced or cleared, remove the node and let the machine join with a new key. Otherwise treat the key as copied.',
  ),
  'join-identity-taken': passing(
    'This machine is already a member under another key. A machine has one membership.',
    'Run `cluster node remove NODE --lost` for the node that the error names. Then have an owner run `cluster node readmit NODE`.',
  ),
  'join-decommissioned': passing(
    'This machine was removed from the cluster. It is refused under every policy and with every key until an owner readmits it.',
    'To bring it back, finish the removal (`cluster node remove NODE`), have an owner run `cluster node readmit NODE`, and reset the machine as root (`cluster node reset --help` shows how).',
  ),
  'join-unknown-machine': passing(
    'The machine is not in the inventory (`join.policy: inventory`) or not in `attestation.policy.machines`.',
    'Add the identity that `cluster explain` shows to that list.',
  ),
  'join-refused': final(
    'An operator refused this machine.',
    'Ask the operators. `cluster node approve MACHINE` still admits it.',
  ),
  'join-role-denied': final(
    'The machine asks for a role that neither the policy nor the operator gives it.',
    'Give it the role in `join.inventory` or when approving, or remove the role from its provisioning.',
  ),
  'join-name-taken': passing(
    'Another node already has the name that this machine would get.',
    'Remove the other node, or give this machine another name when approving or in `join.inventory`.',
  ),
  'join-name-invalid': passing(
    'The machine has no usable name. A name has at most 63 lower-case letters, digits and dashes, and is neither `kubernetes` nor `localhost`.',
    'Give it a name when approving or in `join.inventory`, or set its host name.',
  ),
  'join-address-invalid': final(
    'The address for other nodes is missing or not an address of one machine: it is loopback, link-local, of the service or pod network, or of the Kubernetes API.',
    'Set the address in the provisioning of the machine.',
  ),
  'join-address-taken': passing(
    'Another node that is alive has the address that this machine reports.',
    'Give the machines different addresses.',
  ),
  'join-not-admitted': passing(
    'The machine requests a ticket without having been admitted, or after its admission was withdrawn.',
    'Do nothing: the machine requests admission again by itself.',
    'peer',
  ),
  'join-admission-expired': passing(
    'The machine was admitted, but did not request its ticket in time.',
    'Do nothing: the machine requests admission again by itself. An operator may have to approve it again.',
    'peer',
  ),
  'join-ticket-other-key': final(
    'A ticket was requested with another key than the one that was admitted.',
    'Do not trust this machine. Find out which machine answers at its address.',
  ),
  'join-ticket-used': final(
    'The ticket of this machine was already used. A ticket is used once.',
    'Do nothing: the agent of a member renews its certificates by rejoining.',
  ),
  'join-not-member': final(
    'The key of the machine is not recorded for a member: the node was deleted, or never admitted.',
    'Reset the machine and let it join again.',
  ),
  'join-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This control plane cannot admit machines yet: some records or keys of the cluster are missing.',
    fix: 'Wait while the cluster is being created. If this persists, check the log of cluster-joinservice.service on the node.',
  },
});

/** The codes of `JoinError`. */
export type JoinErrorCode = keyof typeof joinErrors;

/** An error of this directory, with one of its codes. */
export class JoinError extends errorClass(joinErrors) {}
