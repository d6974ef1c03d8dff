import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const signerErrors = defineErrors({
  'signer-config-invalid': fault.system.usage(
    'The configuration file of the signer is invalid.',
    'Restart bootstrapper.service, which writes this file. Report it if the file is still invalid.',
  ),
  'signer-key-missing': retryable.system.precondition(
    'A key of the cluster is not on this control plane yet.',
    'Wait while the node is being set up. If this persists, check which file the log of cluster-signer.service names.',
  ),
  'signer-not-on-record': fault.peer.refused(
    'A certificate was requested that no record of the cluster allows.',
    'If nobody removed the node or operator at that moment, check who can reach the join service.',
  ),
  'signer-request-invalid': fault.peer.refused(
    'The request to sign is malformed, or the machine itself did not make it.',
    'Compare the versions of the agent and the join service. They may differ by one minor version.',
  ),
  'signer-statement-outdated': retryable.peer.refused(
    'The statement of a machine is older than ten minutes, or its time is in the future.',
    'Compare the clocks of the machine and the control plane. If they agree, somebody may have delayed the statement.',
  ),
  'signer-statement-replayed': retryable.peer.refused(
    'The machine has made a newer statement since: the received statement is a replay.',
    'Do nothing: the machine retries by itself. If the error happens again, check who can reach the socket of the signer.',
  ),
  'signer-evidence-missing': fault.peer.refused(
    'The statement came without evidence of the variant that the machine was admitted with.',
    'Compare the versions of the agent and the join service, and check that the TPM of the machine responds.',
  ),
  'signer-evidence-refused': fault.peer.refused(
    'The evidence is not bound to this statement, or the attestation policy refuses it.',
    'Find the failed check with `journalctl -u cluster-signer` on the control plane. If it is a reference value, correct the policy in cluster.yaml and run `cluster config apply`; otherwise do not trust the machine.',
  ),
  'signer-machine-other': fault.peer.refused(
    'The evidence does not come from the recorded machine.',
    'If the machine was replaced, remove its node and let it join again. Otherwise treat the node key as copied.',
  ),
  'signer-machine-changed': fault.peer.refused(
    'The record of a control plane does not name the machine that the signer knows for this node.',
    'If the change is intended, have an owner sign a new grant for the node. Otherwise check who writes records to etcd.',
  ),
  'signer-address-other': fault.peer.refused(
    'A machine requested a certificate for an address or name that is not its own.',
    'Give the machine an address and a name of its own. The error names the node that has this address or name. If that node is a control plane that was removed without an owner, an owner frees the address and the name with `cluster node remove NODE` or `cluster node readmit NODE`.',
  ),
  'signer-grant-missing': retryable.operator.refused(
    'A control plane needs a grant signed by an owner, and no owner has signed a grant for this node.',
    'Have an owner approve the machine (`cluster node approve`) or set the roles of the node (`cluster node set-role`). Both sign a grant.',
  ),
  'signer-grant-other': fault.peer.refused(
    'The owner’s grant names another key, machine or role than the record of the node.',
    'Have an owner sign a grant for the node as it is recorded. If nobody changed it, check who writes records to etcd.',
  ),
  'signer-policy-unsigned': retryable.operator.refused(
    'No owner has signed the stored configuration, which says which evidence is accepted.',
    'Have an owner apply the configuration again.',
  ),
  'signer-share-unavailable': fault.operator.precondition(
    'This control plane has no secret for disk shares (`/var/lib/cluster/keys/disk-shares.key`). Other control planes may have one; a cluster that an earlier release created has none.',
    'Restart bootstrapper.service on the control plane: it gets the secret with its next ticket if another control plane has one. In a cluster that an earlier release created, do nothing: its workers keep the cluster share of their state disk sealed to their TPM.',
  ),
  'signer-share-malformed': fault.operator.precondition(
    'The secret for disk shares on this control plane (`/var/lib/cluster/keys/disk-shares.key`) is malformed.',
    'Restart bootstrapper.service on the control plane: it gets the secret with its next ticket from another control plane, and replaces the malformed one. If no other control plane has it, restore the file from a backup of the cluster.',
  ),
  'signer-share-not-member': fault.peer.refused(
    'A machine that is not a member asked for the cluster share of its state disk: its node was removed, or its TPM never was that of a member.',
    'If the machine was removed on purpose, do nothing: its disk stays closed. If it was removed by mistake, an owner opens the disk with `cluster recover disk NODE`; the machine then joins again after `cluster node readmit NODE`.',
  ),
  'signer-share-unlisted': fault.operator.refused(
    'A member asked for the cluster share of its state disk, and the configuration that an owner has signed does not list its machine any more (`attestation.policy.machines`).',
    'If the machine is to stay, add its identity to `attestation.policy.machines` in cluster.yaml, and have an owner run `cluster config apply`. Otherwise remove the node.',
  ),
  'signer-memory-damaged': retryable.system.internal(
    'The file in which the signer remembers owner documents and statements cannot be read.',
    'Remove the control-plane role from the node and assign it again. The signer then starts from the lowest serials that the grant of the owner contains.',
  ),
});

/** An error of this directory, with one of its codes. */
export class SignerError extends errorClass(signerErrors) {}
