import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of commands about nodes. */
export const nodesErrors = defineErrors({
  'nodes-power-timeout': retryable.peer.unreachable(
    'The machine did not return, or did not stop, within the time limit.',
    'Look at the console of the machine. Run the command again to wait longer; a machine that has restarted is not restarted again.',
  ),
  'nodes-approve-timeout': retryable.peer.unreachable(
    'The machine was approved, but it was not a ready node within the time limit.',
    'Fix what the message names; `cluster explain NODE` shows the checks of the join, `cluster node show NODE` the parts of the node. Run the command again to wait longer.',
  ),
  'nodes-not-asking': retryable.peer.unreachable(
    'A machine that is to become a control plane did not ask to join within the time limit.',
    'Check that the machine runs, that its fingerprint is the one in the command, and that its provisioning file names the first machine as a join endpoint. Then run the same command again: it resumes.',
  ),
  'nodes-join-refused': fault.peer.refused(
    'The machine was refused while it joined.',
    'See with `cluster explain MACHINE` which check refused the machine, fix the cause, and approve the machine again.',
  ),
  'nodes-removed-unknown': fault.operator.precondition(
    'No removed machine has this name, node ID or identity, or several removed machines have it.',
    'Give the identity that `cluster node ls --removed` shows.',
  ),
  'nodes-already-removed': fault.operator.precondition(
    'The node is removed already. Its machine takes no order from the cluster, and this command has not reset it: its data is still on its disk unless another operator has reset it. Nothing was changed.',
    'To delete the data, run as root on the machine `install -D /dev/null /var/lib/cluster/reset/order.json`, then `systemctl restart --no-block bootstrapper`. To let it join again after that, run `cluster node readmit NODE`.',
  ),
  'nodes-change-unsafe': fault.operator.precondition(
    'The change would endanger the cluster. Nothing was changed.',
    'Resolve each reason first. `cluster status` shows etcd members and control planes, `cluster node show NODE` one node.',
  ),
  'nodes-last-control-plane': fault.operator.precondition(
    'The cluster would end with its last control-plane node. Nothing was changed.',
    'To keep the cluster, let another machine become a control plane first: `cluster node set-role NODE --control-plane`, or `cluster node approve MACHINE --roles control-plane`. To end the cluster, run as root on the machine: `install -D /dev/null /var/lib/cluster/reset/order.json && systemctl restart --no-block bootstrapper`. This deletes all cluster data on it.',
  ),
  'nodes-drain-blocked': fault.operator.precondition(
    'Evicting pods from the node would lose them, or their data, for good. No pod was evicted; the node is cordoned.',
    'Move the pods yourself, or allow the loss with --delete-emptydir-data or --force.',
  ),
  'nodes-drain-timeout': retryable.operator.partial(
    'Pods did not leave the node before the timeout. The node is cordoned.',
    'Check the disruption budgets and the events of these pods, then run the same command again.',
  ),
  'nodes-role-change-timeout': retryable.system.partial(
    'The new roles of the node are on record, but after ten minutes its processes, etcd or Kubernetes do not match them yet.',
    'See what the node waits for with `cluster node show NODE` and fix it, then run the same command again: the repeated command only waits.',
  ),
  'nodes-not-verified': fault.peer.refused(
    'The fresh evidence of a node does not match the policy or its record.',
    'Cordon the node (`cluster node cordon NODE`) and find out what changed on it. If nothing explains it, remove the node.',
  ),
  'nodes-machine-changed': fault.peer.refused(
    'The record of the node names another machine, or other keys, than this workspace or its inventory knows. Its evidence was not trusted.',
    'Find out who replaced the machine or its keys (`cluster audit ls`). If an owner did, run `cluster verify NODE --accept-change`, or correct the inventory in cluster.yaml. Otherwise check who writes records to etcd.',
  ),
  'nodes-disk-not-approvable': fault.operator.precondition(
    'The state disk of the machine is not sealed so that an owner can approve other registers. Nothing was changed.',
    'Add `stateDisk.approvalKey` to the provisioning file of the machine (`cluster provisioning generate` writes it) and restart the machine: it seals its disk again by itself. Until then, an owner recovers the disk after an update: `cluster recover disk NODE`.',
  ),
  'nodes-register-file': fault.operator.usage(
    'A file with registers does not exist, is malformed, or has none of the registers that the disk is sealed to. Nothing was changed.',
    'Pass `reference-values.json` of an image (`cluster image build`), or the output of `cluster attest measure --output json` on a machine that runs the new firmware.',
  ),
  'nodes-approval-not-confirmed': fault.operator.usage(
    'An approval lets other software open the disk of the machine, and needs confirmation. Nothing was changed.',
    'Compare the registers with the update that you are about to install (--dry-run shows them). Then run the command with --yes.',
  ),
  'nodes-disk-not-rotatable': fault.operator.precondition(
    'The agent of the machine has an earlier release, which cannot give a mounted state disk new keys, or its provisioning file names recipients to whom no recovery key can be encrypted (at most 64). Nothing was changed.',
    'Update the machine, or correct `recoveryRecipients` in its provisioning file. With an earlier release, only `cluster node reset NODE` gives a machine a disk with other keys.',
  ),
  'nodes-rotation-not-confirmed': fault.operator.usage(
    'New keys of a state disk end the earlier ones, and give the recovery key to the recipients of the provisioning file: this needs confirmation. Nothing was changed.',
    'Compare the recipients with those of your owners (--dry-run shows them). Then run the command with --yes.',
  ),
  'nodes-pin-damaged': fault.operator.precondition(
    'A file of known machines in the workspace (`machines/NODE.json`) cannot be read.',
    'Restore the file from a backup of the workspace, or delete it and compare the machine with what you know of it.',
  ),
});

/** An error of a command about nodes. */
export class NodesError extends errorClass(nodesErrors) {}
