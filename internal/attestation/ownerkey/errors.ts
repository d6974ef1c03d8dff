import { defineErrors, fault } from '../../errors/index.ts';
import { refusalClass } from '../errors.ts';

/** Refusals of owner-key evidence, one for each check. */
export const ownerKeyErrors = defineErrors({
  'owner-key-invalid': fault.operator.usage(
    'An owner key is missing, is not an Ed25519 key, or is a weak key for which anybody can forge signatures.',
    'Copy the owner key that `cluster config generate` prints into the provisioning file again.',
  ),
  'owner-key-malformed': fault.peer.refused(
    'The owner-key evidence does not have the size and version of the specification.',
    'Compare the version of the CLI with that of the agent, and upgrade the older one.',
  ),
  'owner-key-unknown': fault.peer.refused(
    'The caller holds an owner key, but this machine was not provisioned with it.',
    'Use the workspace whose owner key is in the provisioning file of the machine.',
  ),
  'owner-key-signature': fault.peer.refused(
    'The owner-key signature does not cover this session: it is forged, or was made for another connection.',
    'Do not continue. Look for a proxy between the two ends that relays or changes the connection.',
  ),
});

/** Owner-key evidence was refused, or the configured owner keys are unusable. */
export class OwnerKeyError extends refusalClass(ownerKeyErrors) {}
