import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** Errors of the records of a state disk. When one is thrown, nothing has been written to the disk. */
export const stateDiskErrors = defineErrors({
  'statedisk-foreign': fault.operator.precondition(
    'The device for the state disk is not empty, and was not made by this program.',
    'Check `stateDisk.device` of the provisioning file. If this is the right device and you do not need its data, overwrite its first 16 MiB with zeros.',
  ),
  'statedisk-lost': fault.operator.precondition(
    'The device for the state disk is empty, but the TPM of this machine remembers a state disk.',
    'Attach the disk that belongs to this machine. If it is gone for good, create the empty file `/etc/cluster/new-state-disk`: the machine then begins as a new machine.',
  ),
  'statedisk-damaged': fault.system.precondition(
    'The device has records of a state disk, but none of them is intact.',
    'First start the release with which the disk was used last. If that one does not open the disk either, restore it from a copy, or overwrite its first 16 MiB with zeros and let the machine begin as a new machine.',
  ),
  'statedisk-unknown': fault.operator.precondition(
    'The newest record of the state disk is intact, but this release does not know its content: a newer release has written it, or somebody who can write to the disk.',
    'Start the release with which the disk was used last, for example the image in the other slot, or install its package. Do not overwrite the disk.',
  ),
  'statedisk-changed': fault.peer.refused(
    'The newest record of the state disk was not written by this machine: the record was changed, or belongs to another disk.',
    'Do not use the disk. Restore it from a copy, or overwrite its first 16 MiB with zeros, create the empty file `/etc/cluster/new-state-disk`, and let the machine join again.',
  ),
  'statedisk-rolled-back': fault.peer.refused(
    'The state disk, or the TPM, is older than the state that this machine used last: an earlier copy was restored.',
    'Attach the current disk. A copy that you restored on purpose cannot be opened: overwrite its first 16 MiB with zeros, create the empty file `/etc/cluster/new-state-disk`, and let the machine join again.',
  ),
  'statedisk-approval-invalid': fault.peer.refused(
    'An approval of registers for a state disk was not signed with the approval key of this machine, or is malformed.',
    'Approve the registers again with the owner key of the workspace that made the provisioning file of the machine: `cluster attest approve NODE`.',
  ),
});

/** A state disk was refused. */
export class StateDiskError extends errorClass(stateDiskErrors) {}
