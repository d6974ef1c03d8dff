import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** Errors of the key set file. */
export const keySetErrors = defineErrors({
  'keyset-invalid': fault.system.internal(
    'The key set file (the keys of a rotation on a control-plane node) is damaged, or was written by a newer version.',
    'Compare the versions of the agents on all control-plane nodes. If they match, move the file away and restart bootstrapper.service: the node fetches it from another control plane.',
  ),
});

/** The key set file could not be parsed. */
export class KeySetError extends errorClass(keySetErrors) {}
