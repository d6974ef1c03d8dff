import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of `cluster recover`. */
export const recoverErrors = defineErrors({
  'recover-refused': fault.operator.precondition(
    'The quorum cannot be recovered from this machine. Nothing was changed.',
    'Start the other control planes, or run the command on the control plane with the newest data.',
  ),
  'recover-damaged': fault.operator.precondition(
    'The data of this machine was found to differ from that of the majority, and a recovery would make it the data of the cluster. Nothing was changed.',
    'Run the command on a control plane whose data is right. If none will come back, restore the newest good backup (`cluster restore`), or add --skip-checks to keep the data of this machine.',
  ),
  'recover-not-confirmed': fault.operator.usage(
    'A recovery loses the data that only the other control planes have, and needs confirmation. Nothing was changed.',
    'Check the loss, make sure that the other control planes are off, then run the command with --confirm and the name of the cluster.',
  ),
  'recover-failed': retryable.system.partial(
    'The machine gave up recovering the quorum.',
    'Fix the cause (see `journalctl -u bootstrapper` on the machine), then run the command with --confirm again. The etcd data is unchanged, or saved in /var/lib/cluster/consensus/state/recovery and /var/lib/cluster/consensus/kubernetes/recovery.',
  ),
  'recover-not-control-plane': fault.operator.precondition(
    'This machine has no credentials of etcd, or you are not root on it.',
    'Run the command as root on a control plane.',
  ),
  'recover-space-full': fault.operator.precondition(
    'History was deleted and the alarm cleared, but the data itself still fills the database. Writes will soon be refused again.',
    'Delete the data that fills the database. etcd still accepts deletions. For the Kubernetes etcd look for many or large objects: `kubectl get --raw /metrics | grep apiserver_resource_objects`. Then run the command again.',
  ),
  'recover-disk-machine-unknown': fault.operator.usage(
    'This workspace does not know the machine or its address. Nothing was sent.',
    'Give the address with --address, and the identity of its TPM, tpm-ek:…, with --machine. `cluster node show NODE` shows both while the cluster runs.',
  ),
  'recover-disk-not-confirmed': fault.operator.usage(
    'A recovery opens the disk for the software that the machine runs now, and needs confirmation. Nothing was changed.',
    'Compare the registers with a change that you know of: an update of the image, of the firmware or of the provisioning file. Then run the command with --yes.',
  ),
  'recover-console-challenge-invalid': fault.operator.usage(
    'The challenge has a typing error, or is not the challenge of a machine with a locked disk. No code was made.',
    'Compare the named group with the console of the machine, and run the command again with all lines of the challenge. Press Enter at the console to see the challenge again.',
  ),
  'recover-disk-answer-invalid': fault.peer.refused(
    'The machine’s answer about its disk is malformed, or contradicts its evidence. Nothing was changed.',
    'Run the command again. If this remains, other software answers on the machine: boot an image that you trust.',
  ),
  'recover-disk-no-share': fault.operator.refused(
    'Several owners open the disk together, and none of their shares is for this recovery key. Nothing was changed.',
    'Use the owner key, or with --recovery-key the key, of a recipient that the provisioning file of the machine named when the disk was formatted.',
  ),
  'recover-timeout': retryable.system.unreachable(
    'The recovery has started, but etcd is not serving in a new epoch yet.',
    'The recovery continues. Run `cluster recover quorum` again to follow it; see `journalctl -u bootstrapper` for its log.',
  ),
});

/** A recovery was refused or failed. */
export class RecoverError extends errorClass(recoverErrors) {}
