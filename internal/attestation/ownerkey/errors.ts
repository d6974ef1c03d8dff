import { defineErrors } from '../../errors/index.ts';
import { refusalClass, refusedCheck } from '../errors.ts';

export const ownerKeyErrors = defineErrors({
  'owner-key-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'An owner key is no Ed25519 key that could prove anything, or there is none at all.',
    fix: 'Copy the owner key from `cluster config generate` into the provisioning file once more.',
  },
  'owner-key-malformed': refusedCheck(
    'The owner-key evidence does not have the form that the specification gives it.',
    'See that both programs are of versions that may work together.',
  ),
  'owner-key-unknown': refusedCheck(
    'The caller holds an owner key, but not one that this machine was provisioned with.',
    'Use the workspace whose owner key is in the provisioning file of the machine.',
  ),
  'owner-key-signature': refusedCheck(
    'The owner-key signature is not one over this session: forged, or made for another connection.',
    'Do not go on: something between the two ends relays or changes the connection.',
  ),
});

export type OwnerKeyErrorCode = keyof typeof ownerKeyErrors;

export class OwnerKeyError extends refusalClass(ownerKeyErrors) {}
