import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

const CHECK_VERSIONS = 'Compare the versions of both programs. They may differ by one minor version.';

/**
 * Why a machine waits or is refused. The machine learns only the code; the trace and the audit log contain
 * the full reason.
 */
export const joinErrors = defineErrors({
  'join-awaiting-approval': retryable.operator.precondition(
    'The machine has proved its identity. An operator has to approve it.',
    'Compare the fingerprint with the fingerprint on the console of the machine, then run `cluster node approve MACHINE`.',
  ),
  'join-awaiting-owner': retryable.operator.precondition(
    'The machine is to become a control plane, and no owner of the cluster has signed that yet.',
    'Have an owner run `cluster node approve MACHINE --roles control-plane`, or `cluster sign` if the inventory lists the machine.',
  ),
  'join-message-malformed': fault.peer.refused(
    'The machine sent a message that is malformed or out of order.',
    CHECK_VERSIONS,
  ),
  'join-key-unproved': fault.peer.refused(
    'The machine did not prove, in this session, that it holds the key it names.',
    CHECK_VERSIONS,
  ),
  'join-keys-invalid': fault.peer.refused(
    'The keys for the ticket are malformed, or the machine did not sign them.',
    CHECK_VERSIONS,
  ),
  'join-hung-up': retryable.peer.unreachable(
    'The machine ended the call before it was served.',
    'Do nothing: a machine that contacts several control planes at once keeps one of the calls.',
  ),
  'join-silent': retryable.peer.refused(
    'The machine did not send its next message in time.',
    'Check the load of the machine and of its TPM.',
  ),
  'join-busy': retryable.system.unreachable(
    'Too many machines contact this control plane at the same time, or too many wait for a decision.',
    'Do nothing: the machine retries by itself. If this persists, approve or refuse the machines that `cluster node ls --joins` lists.',
  ),
  'join-clock-off': retryable.peer.refused(
    'The clock of the machine differs from the cluster’s by more than five minutes, so certificates would not be valid there.',
    'Set the clock of the machine. `cluster explain` shows the difference in seconds.',
  ),
  'join-machine-unfit': retryable.peer.refused(
    'A check that the machine makes before it joins fails, so it cannot become a node yet. The message names the check.',
    'Do what `cluster explain` says about the machine. `cluster preflight` shows all of its checks. The machine tries again by itself.',
  ),
  'join-evidence-mismatch': fault.peer.refused(
    'The evidence was made with another attestation key or another machine key than the key with which the machine joins.',
    'Do not trust this machine. Find out which machine answers at its address.',
  ),
  'join-evidence-outdated': retryable.peer.refused(
    'The evidence of this session was verified with an attestation policy that was replaced since.',
    'Do nothing: the machine sends new evidence by itself.',
  ),
  'join-not-locked': retryable.peer.refused(
    'The lock register (PCR) of the machine does not show that the machine is bound to this cluster.',
    'Restart bootstrapper.service on the machine. If this persists, reset the machine as root (`cluster node reset --help` shows how) and let it join again.',
  ),
  'join-machine-copied': fault.peer.refused(
    'The clock of the machine’s TPM went backward, or ran faster than time. The TPM state was restored from a copy, or a copy of the TPM is in use elsewhere.',
    'Find out which machine is the real one. Run `cluster node remove NODE --lost`, have an owner run `cluster node readmit NODE`, reset the real machine as root (`cluster node reset --help` shows how) and let it join again. Replace a virtual TPM that was copied.',
  ),
  'join-locked-again': fault.peer.refused(
    'The lock counter of the TPM changed since the machine joined: the machine was wiped and its disk restored, or the machine joined another cluster in between.',
    'Run `cluster node remove NODE --lost`, have an owner run `cluster node readmit NODE`, reset the machine as root (`cluster node reset --help` shows how) and let it join again.',
  ),
  'join-identity-unproved': retryable.operator.refused(
    'The join policy admits only machines whose hardware is endorsed, and neither a trusted manufacturer nor the inventory vouches for this machine.',
    'Add the manufacturer’s root or the identity of the machine to the configuration, or let operators decide (`join.policy: approve`).',
  ),
  'join-identity-changed': fault.peer.refused(
    'The machine shows a key that the cluster has recorded for another machine.',
    'If the TPM of the machine was replaced or cleared, remove the node and let the machine join with a new key. Otherwise treat the key as copied.',
  ),
  'join-identity-taken': retryable.operator.refused(
    'This machine is already a member under another key. A machine has one membership.',
    'Run `cluster node remove NODE --lost` for the node that the error names. Then have an owner run `cluster node readmit NODE`.',
  ),
  'join-decommissioned': retryable.operator.refused(
    'This machine was removed from the cluster. It is refused under every policy and with every key until an owner readmits it.',
    'To bring the machine back, have an owner run `cluster node readmit NODE`, and reset the machine as root (`cluster node reset --help` shows how). If the removal was interrupted, finish it first (`cluster node remove NODE`).',
  ),
  'join-unknown-machine': retryable.operator.refused(
    'The machine is not in the inventory (`join.policy: inventory`) or not in `attestation.policy.machines`.',
    'Add the identity that `cluster explain` shows to that list.',
  ),
  'join-refused': fault.peer.refused(
    'An operator refused this machine.',
    'Ask the operators. `cluster node approve MACHINE` still admits it.',
  ),
  'join-role-denied': fault.peer.refused(
    'The machine asks for a role that neither the policy nor the operator gives it.',
    'Give the machine the role in `join.inventory` or when approving, or remove the role from its provisioning.',
  ),
  'join-name-taken': retryable.operator.refused(
    'Another node already has the name that this machine would get.',
    'Remove the other node, or give this machine another name when approving or in `join.inventory`.',
  ),
  'join-name-invalid': retryable.operator.refused(
    'The machine has no usable name. A name has at most 63 lower-case letters, digits and dashes, and is neither `kubernetes` nor `localhost`.',
    'Give the machine a name when approving or in `join.inventory`, or set its host name.',
  ),
  'join-address-invalid': fault.peer.refused(
    'The address that the machine reports for other nodes is missing or cannot belong to a single machine. It is a loopback or link-local address, belongs to the service or pod network, or is the address of the Kubernetes API.',
    'Set the address in the provisioning of the machine.',
  ),
  'join-address-taken': retryable.operator.refused(
    'Another node has the address that this machine reports: a node that is alive, or a control plane that is alive or off.',
    'Give the machines different addresses. If the control plane will not come back, remove it: `cluster node remove NODE --lost`.',
  ),
  'join-not-admitted': retryable.peer.refused(
    'The machine requests a ticket without having been admitted, or after its admission was withdrawn.',
    'Do nothing: the machine requests admission again by itself.',
  ),
  'join-admission-expired': retryable.peer.refused(
    'The machine was admitted, but did not request its ticket in time.',
    'Do nothing: the machine requests admission again by itself. An operator may have to approve it again.',
  ),
  'join-ticket-other-key': fault.peer.refused(
    'The machine requested a ticket with another key than the key with which it was admitted.',
    'Do not trust this machine. Find out which machine answers at its address.',
  ),
  'join-ticket-used': fault.peer.refused(
    'The ticket of this machine was already used. A ticket is used once.',
    'Do nothing: the agent of a member renews its certificates by rejoining.',
  ),
  'join-not-member': fault.peer.refused(
    'The key of the machine is not recorded for a member: the node was deleted, or never admitted.',
    'Reset the machine and let it join again.',
  ),
  'join-share-not-member': fault.peer.refused(
    'A machine that is not a member asked for the cluster share of its state disk: its node was removed, or its TPM never was that of a member.',
    'If the machine was removed on purpose, do nothing: its disk stays closed. If it was removed by mistake, an owner opens the disk with `cluster recover disk NODE`; the machine then joins again after `cluster node readmit NODE`.',
  ),
  'join-share-too-often': retryable.peer.refused(
    'A machine asked this control plane for the cluster share of its state disk more than 40 times in ten minutes from one address.',
    'Do nothing: an agent asks less often, and again later. If the error happens again, find out which machine has the address that the audit log names: it may claim the TPM of another machine.',
  ),
  'join-not-ready': retryable.system.unreachable(
    'This control plane cannot admit machines yet: some records or keys of the cluster are missing.',
    'Wait while the cluster is being created. If this persists, check the log of cluster-joinservice.service on the node.',
  ),
});

/** The codes of `JoinError`. */
export type JoinErrorCode = keyof typeof joinErrors;

/** An error of this directory, with one of its codes. */
export class JoinError extends errorClass(joinErrors) {}
