import { defineErrors, errorClass, type ErrorSpec } from '../../internal/errors/index.ts';

/** The machine, as it is, will be refused again. */
function final(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}

/** Something outside the machine can change, and then the same request is answered otherwise. */
function passing(meaning: string, fix: string, fault: ErrorSpec['fault'] = 'operator'): ErrorSpec {
  return { fault, exit: 'refused', retryable: true, meaning, fix };
}

const ALTERED = 'Compare the versions of both programs; they may differ by one minor.';

/** What a machine that asks to be let in may be told. It learns the code; the chain is in the trace and the audit. */
export const joinErrors = defineErrors({
  'join-awaiting-approval': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The machine has proved who it is, and an operator has to decide.',
    fix: 'Compare its fingerprint with the one on its console, then `cluster node approve`.',
  },
  'join-awaiting-owner': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The machine is to become a control plane, and no owner of the cluster has signed that.',
    fix: 'An owner runs `cluster node approve MACHINE --roles control-plane`, or, where the inventory lists it, `cluster sign`.',
  },
  'join-message-malformed': final('A message does not have its form, or came out of its turn.', ALTERED),
  'join-key-unproved': final(
    'The machine did not prove, for this session, that it holds the key it names.',
    ALTERED,
  ),
  'join-keys-invalid': final(
    'The keys for the ticket are not what they should be, or not signed by the machine that asks.',
    ALTERED,
  ),
  'join-hung-up': {
    ...{ fault: 'peer', exit: 'unreachable', retryable: true },
    meaning: 'The machine ended the call before it was its turn.',
    fix: 'Nothing: a machine that asks several control planes at once keeps one of them.',
  },
  'join-silent': passing(
    'The machine did not take its turn in time.',
    'See what keeps its agent or its TPM busy.',
    'peer',
  ),
  'join-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Too many machines ask at the same time, or too many wait for a decision.',
    fix: 'Nothing: it asks again by itself. If it stays so, decide about those that `cluster node ls --joins` shows.',
  },
  'join-clock-off': passing(
    'The clock of the machine differs from the cluster’s by more than five minutes: certificates would not be valid there.',
    'Set the clock of the machine; `cluster explain` names the difference in seconds.',
    'peer',
  ),
  'join-evidence-mismatch': final(
    'The machine enrols another attestation key than the one that signed its evidence, or evidence of another kind.',
    'Do not trust this machine; see what answers at its address.',
  ),
  'join-evidence-outdated': passing(
    'The machine asks for certificates over a session whose evidence was judged by a policy that is no longer in force.',
    'Nothing: it proves itself anew by itself.',
    'peer',
  ),
  'join-not-locked': passing(
    'The machine asks for certificates, and its lock register does not show that it is bound to this cluster.',
    'Restart its bootstrapper.service, which shows the lock before anything else; if it stays so, make the machine fresh as root on it (`cluster node reset --help` shows how) and let it join anew.',
    'peer',
  ),
  'join-machine-copied': final(
    'The TPM of this machine went back in time, or counted more than went by: its state was restored from a copy, or a copy of it runs elsewhere.',
    'Find out which machine is the real one. Then take the node out (`cluster node remove NODE --lost`), have an owner readmit it (`cluster node readmit NODE`), make the real machine fresh as root on it (`cluster node reset --help` shows how) and let it join anew; a virtual TPM that was copied stays copied: give it a new one.',
  ),
  'join-locked-again': final(
    'The machine was locked again since it joined: it was wiped and its disk put back, or it belonged to another cluster meanwhile.',
    'Take the node out (`cluster node remove NODE --lost`), have an owner readmit the machine (`cluster node readmit NODE`), make it fresh as root on it (`cluster node reset --help` shows how) and let it join anew.',
  ),
  'join-identity-unproved': passing(
    'The policy admits proved machines only, and nobody vouches for the hardware of this one: no manufacturer that is trusted, no inventory.',
    'Add the manufacturer’s root or the machine’s identity to the configuration, or let an operator decide (`join.policy: approve`).',
  ),
  'join-identity-changed': final(
    'The key is on record for another machine than the one that shows it.',
    'If the machine’s TPM was replaced or cleared, remove the node and let the machine join with a new key; if not, its key was copied.',
  ),
  'join-identity-taken': passing(
    'This machine is a member already, under another key. One machine has one membership.',
    'See in the message which node the machine is, and take that out first: `cluster node remove NODE --lost`. Then an owner readmits it: `cluster node readmit NODE`.',
  ),
  'join-decommissioned': passing(
    'This machine was removed from the cluster. It is refused under every policy and with every key until an owner readmits it.',
    'If it is to come back: finish the removal (`cluster node remove NODE`), have an owner run `cluster node readmit NODE`, and make the machine fresh as root on it (`cluster node reset --help` shows how).',
  ),
  'join-unknown-machine': passing(
    'The policy is `inventory`, and this machine is not in it, or `attestation.policy.machines` names others.',
    'Add its identity, as `cluster explain` shows it, to the list that there is.',
  ),
  'join-refused': final(
    'An operator refused this machine.',
    'Ask the operators; `cluster node approve` admits it all the same.',
  ),
  'join-role-denied': final(
    'The machine asks for a role that the policy or the operator does not give it.',
    'Give it the role in `join.inventory` or when approving, or take the wish out of its provisioning.',
  ),
  'join-name-taken': passing(
    'Another node has the name that this machine would get.',
    'Remove the old node, or give this machine another name when approving or in `join.inventory`.',
  ),
  'join-name-invalid': passing(
    'The machine has no usable name: lower-case letters, digits and dashes, at most 63, and none that stands for the Kubernetes API or for any machine itself.',
    'Give it a name when approving or in `join.inventory`, or set its host name.',
  ),
  'join-address-invalid': final(
    'The address at which other nodes would reach the machine is none, or one that is not a machine’s: of services, pods or the Kubernetes API, of a link, or its own for itself.',
    'Set the address in its provisioning.',
  ),
  'join-address-taken': passing(
    'Another node that is alive has the address that this machine names as its own.',
    'Give the machines different addresses.',
  ),
  'join-not-admitted': passing(
    'The machine asks for its ticket without having been admitted, or after its admission was taken back.',
    'It asks for admission again by itself.',
    'peer',
  ),
  'join-admission-expired': passing(
    'The machine was admitted, but did not take its ticket in time.',
    'It asks for admission again by itself; after an operator’s approval that may need another one.',
    'peer',
  ),
  'join-ticket-other-key': final(
    'A ticket was asked for with another key than the one that was admitted.',
    'Do not trust this machine; see what answers at its address.',
  ),
  'join-ticket-used': final(
    'The ticket of this machine was taken long ago; a ticket is used once.',
    'A member asks for its certificates again by rejoining; the agent does so by itself.',
  ),
  'join-not-member': final(
    'The key of the machine is on no record of a member: it was deleted, or never admitted.',
    'Reset the machine and let it join anew.',
  ),
  'join-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'This control-plane node can’t admit machines yet: a part of the cluster’s records or keys is not there.',
    fix: 'Nothing while the cluster is being created; if it stays so, see the log of cluster-joinservice.service there.',
  },
});

export type JoinErrorCode = keyof typeof joinErrors;

export class JoinError extends errorClass(joinErrors) {}
