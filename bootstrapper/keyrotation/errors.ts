import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const keyRotationErrors = defineErrors({
  'keyrotation-keys-unavailable': retryable.system.unreachable(
    'The shared keys of control planes are being rotated, and this control plane has not received the new ones yet.',
    'Wait a few minutes: this node retries automatically. If it does not help, check cluster-joinservice.service and cluster-signer.service on the node that `cluster keys show` names.',
  ),
});

/** An error with a code of this directory. */
export class KeyRotationError extends errorClass(keyRotationErrors) {}
