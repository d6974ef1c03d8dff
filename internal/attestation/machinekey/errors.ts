import { defineErrors } from '../../errors/index.ts';
import { refusalClass, refusedCheck } from '../errors.ts';

export const machineKeyErrors = defineErrors({
  'machine-key-malformed': refusedCheck(
    'The machine-key evidence does not have the form that the specification gives it.',
    'See that both programs are of versions that may work together.',
  ),
  'machine-key-unknown': refusedCheck(
    'The machine holds a key, but not the one whose fingerprint was named.',
    'Compare the fingerprint with the one on the console of the machine; if it differs, something else answers at that address.',
  ),
  'machine-key-signature': refusedCheck(
    'The machine-key signature is not one over this session: forged, or made for another connection.',
    'Do not go on: something between the two ends relays or changes the connection.',
  ),
});

export type MachineKeyErrorCode = keyof typeof machineKeyErrors;

export class MachineKeyError extends refusalClass(machineKeyErrors) {}
