import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';
import { LuksError } from '../../internal/luks/index.ts';
import { StateDiskError } from '../../internal/statedisk/index.ts';

/** Errors of the program that formats and opens the state disk. */
export const diskErrors = defineErrors({
  'disk-device-missing': retryable.operator.precondition(
    'The block device for the state disk does not exist.',
    'Attach the disk, or correct the path of the device. Prefer a name in /dev/disk/by-id, which does not depend on the order of disks.',
  ),
  'disk-too-small': fault.operator.precondition(
    'The block device for the state disk is too small.',
    'Use a device of at least 64 MiB; a node needs much more for images and etcd.',
  ),
  'disk-directory-used': fault.operator.precondition(
    'A directory that should be on the state disk already contains unencrypted files.',
    'Use a state disk from the first start of a machine on. Reset a machine that is a node, and delete what is left in the directory.',
  ),
  'disk-locked': retryable.operator.precondition(
    'The TPM does not release the shares of the state disk: registers changed, or the machine has another TPM.',
    'Boot the software with which the disk was last opened. If the change is wanted, run `cluster recover disk NODE` on a workstation with the key of an owner: the machine waits for it at its init port. Without a network, and if the console of the machine shows a challenge, add --console and give it this challenge.',
  ),
  'disk-recovery-refused': fault.operator.refused(
    'The recovery key does not open the state disk.',
    'Use the recovery key that was decrypted from the record of this disk.',
  ),
  'disk-share-awaited': retryable.operator.precondition(
    'The state disk of this worker opens with a cluster share, which only a signer of the cluster gives, and none has given it.',
    'Start a control plane of the cluster, or correct the network between it and this machine: the machine asks again by itself. To open the disk without the cluster, run `cluster recover disk NODE` on a workstation with the key of an owner.',
  ),
  'disk-share-refused': retryable.operator.refused(
    'A control plane refuses the cluster share of this state disk: the node was removed, or the cluster does not accept its software.',
    'The message has the code of the refusal: see `cluster help errors CODE`. If the node was removed, its disk stays closed: to use the machine again, run `cluster recover disk NODE`, reset the machine as root on it, and run `cluster node readmit NAME`. If no owner can open the disk, overwrite its first 16 MiB from another system and create the empty file `/etc/cluster/new-state-disk` instead. Otherwise look at `journalctl -u cluster-joinservice -u cluster-signer` on the control plane that the message names.',
  ),
  'disk-share-invalid': retryable.peer.refused(
    'A control plane has answered with a cluster share that is not signed by the cluster CA, or not for the TPM of this machine. It was not used, and no other control plane has given one.',
    'Look at `journalctl -u cluster-joinservice` on the control plane that the message names, and find out who changed its join service. The machine asks again by itself.',
  ),
  'disk-share-wrong': retryable.system.internal(
    'The cluster share that a signer gave does not open the state disk.',
    'Report it: the control planes may have different secrets for state disks (`/var/lib/cluster/keys/disk-shares.key`). The machine asks again by itself; an owner opens the disk with `cluster recover disk NODE`.',
  ),
  'disk-share-not-moved': retryable.system.precondition(
    'The cluster share of the state disk was not moved between this machine and the signers. Nothing was changed.',
    'Do nothing: the machine tries again. If this persists, restart bootstrapper.service.',
  ),
  'disk-share-moved': retryable.operator.partial(
    'The state disk has new keys, or its cluster share has moved between this machine and the signers, so that keys of the disk are in the memory of the agent. The agent starts again without them.',
    'Nothing to do: the agent continues automatically.',
  ),
  'disk-not-provisioned': fault.operator.precondition(
    'The machine has no encrypted state disk: its provisioning file names none.',
    'Nothing needs to be approved or rotated for this machine: it starts with any software. A machine gets a state disk with `cluster provisioning generate --state-disk DEVICE`, when it is set up again.',
  ),
  'disk-rotation-unauthorized': fault.peer.refused(
    'An order for new keys of the state disk is not signed by an owner whose key this machine was provisioned with, or for whom such an owner has vouched. Nothing was changed.',
    'Run `cluster node rotate-disk-keys NODE` in the workspace of an owner. If you did not send the order, look at `cluster audit ls` to see who did.',
  ),
  'disk-rotation-refused': fault.operator.refused(
    'The machine does not take an order for new keys of its state disk: the order is for another disk, for keys that were replaced since, or for other recovery recipients. Nothing was changed.',
    'Run `cluster node rotate-disk-keys NODE` again: it reads the state of the disk and signs a new order. If the recovery recipients are not those that you expect, look at `stateDisk` in the provisioning file of the machine first.',
  ),
  'disk-rotation-postponed': retryable.operator.precondition(
    'The machine does not give its state disk new keys now, because its agent ends: a recovery or a reset was ordered. Nothing was changed.',
    'Wait until `cluster node show NODE` shows the node as healthy, and run the command again. A machine that was reset has a new disk with new keys.',
  ),
  'disk-share-moving': retryable.operator.precondition(
    'The record of the state disk is being changed: the cluster share is being moved, or an approval or other new keys are being stored. Nothing was changed.',
    'Run the command again in a minute. If this persists, look at `cluster node logs NODE`: a worker may be waiting for a signer.',
  ),
  'disk-approval-refused': fault.operator.refused(
    'The machine does not take an approval for its state disk. Nothing was changed.',
    'Run `cluster attest approve NODE` again: it reads the state of the disk and signs a new approval. If the machine has no approval key, add `stateDisk.approvalKey` to its provisioning file (`cluster provisioning generate` writes it) and restart the machine.',
  ),
});

/** A code of this directory. */
export type DiskErrorCode = keyof typeof diskErrors;

/** The state disk could not be opened. */
export class DiskError extends errorClass(diskErrors) {}

/** Whether the recovery key of an owner would open the disk. */
export function isLockedDiskError(error: unknown): error is DiskError {
  return error instanceof DiskError && error.code === 'disk-locked';
}

/** Whether an order for new keys was refused before any key of the disk was read. */
export function isRotationRefused(error: unknown): error is DiskError {
  return error instanceof DiskError && error.code === 'disk-rotation-refused';
}

/** Errors of a cluster share that the signers have not given; all may pass. */
const SHARE_ERRORS: ReadonlySet<string> = new Set<DiskErrorCode>([
  'disk-share-awaited',
  'disk-share-refused',
  'disk-share-invalid',
  'disk-share-wrong',
]);

/** Whether the disk opens as soon as a signer gives its share. */
export function isShareError(error: unknown): error is DiskError {
  return error instanceof DiskError && SHARE_ERRORS.has(error.code);
}

/** Whether the agent ends in order to start again without the keys of the disk. */
export function isShareMoved(reason: unknown): reason is DiskError {
  return reason instanceof DiskError && reason.code === 'disk-share-moved';
}

/** Whether a signer gave a share that is not the one of the disk. */
export function isWrongShareError(error: unknown): error is DiskError {
  return error instanceof DiskError && error.code === 'disk-share-wrong';
}

/**
 * Whether a cluster that has proved itself refuses the share for a reason that does not pass (detail `isLasting`). Anybody in the network could be the author
 * of a refusal before that proof.
 */
export function isLastingRefusal(error: unknown): error is DiskError {
  return (
    error instanceof DiskError && error.code === 'disk-share-refused' && error.details['isLasting'] === true
  );
}

/** Errors that may pass by themselves: a missing disk, or a control plane, may still appear. */
const PASSING: ReadonlySet<string> = new Set<string>([
  'disk-device-missing',
  'disk-share-moved',
  ...SHARE_ERRORS,
]);

/** Whether the disk stays closed until somebody has changed something: another try would give the same error. */
export function isStayingDiskError(error: unknown): boolean {
  if (error instanceof StateDiskError || error instanceof LuksError) return true;
  return error instanceof DiskError && !PASSING.has(error.code);
}
