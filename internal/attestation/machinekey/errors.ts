import { defineErrors, fault } from '../../errors/index.ts';
import { refusalClass } from '../errors.ts';

/** Refusals of machine-key evidence, one for each check. */
export const machineKeyErrors = defineErrors({
  'machine-key-malformed': fault.peer.refused(
    'The machine-key evidence does not have the size, version or kind of key of the specification.',
    'Compare the versions of the programs at both ends, and upgrade the older one.',
  ),
  'machine-key-unknown': fault.peer.refused(
    'The fingerprint of the machine’s key is not the configured fingerprint.',
    'Compare the fingerprint with the fingerprint on the console of the machine. If they differ, another machine answers at that address.',
  ),
  'machine-key-signature': fault.peer.refused(
    'The machine-key signature does not cover this session: it is forged, or was made for another connection.',
    'Do not continue. Look for a proxy between the two ends that relays or changes the connection.',
  ),
});

/** Machine-key evidence was refused. */
export class MachineKeyError extends refusalClass(machineKeyErrors) {}
