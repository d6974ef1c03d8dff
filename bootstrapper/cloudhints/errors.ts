import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const cloudHintsErrors = defineErrors({
  'cloudhints-answer-invalid': retryable.peer.precondition(
    'The metadata of the cloud has another format or size than its provider documents. No part of it was used; the machine works without it.',
    'Set `nodeName` and `address` in the provisioning of the machine, and `cloud` to the right provider or to `none`.',
  ),
  'cloudhints-unavailable': retryable.peer.unreachable(
    'The metadata service of the cloud refused a request or did not respond in time. The machine works without it.',
    'Nothing to do if node name and address are right. Otherwise set them in the provisioning, or enable the metadata service of the machine.',
  ),
});

/** An error with a code of this directory. */
export class CloudHintsError extends errorClass(cloudHintsErrors) {}
