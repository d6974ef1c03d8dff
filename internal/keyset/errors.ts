import { defineErrors, errorClass } from '../errors/index.ts';

export const keySetErrors = defineErrors({
  'keyset-invalid': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning:
      'The file with which a control plane replaces the keys that all of them share is damaged, or was written by a newer version.',
    fix: 'Compare the versions of the agents on all control-plane nodes. If the file is damaged, move it away and restart bootstrapper.service: the node gets it again from another control plane.',
  },
});

export type KeySetErrorCode = keyof typeof keySetErrors;

export class KeySetError extends errorClass(keySetErrors) {}
