import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const keyRotationErrors = defineErrors({
  'keyrotation-keys-unavailable': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The keys that control planes share are being replaced, and no other control plane has handed the new ones to this one yet.',
    fix: 'Nothing for a few minutes: this node asks again. If it stays so, see on the node that `cluster keys show` names whether cluster-joinservice.service and cluster-signer.service run.',
  },
});

export type KeyRotationErrorCode = keyof typeof keyRotationErrors;

export class KeyRotationError extends errorClass(keyRotationErrors) {}
