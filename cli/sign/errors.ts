import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors about what an owner is asked to sign. */
export const signErrors = defineErrors({
  'sign-new-keys-untrusted': fault.peer.refused(
    'A curator showed shared keys to sign, and this workspace cannot tell that a control plane of the cluster created them.',
    'Run `cluster verify NODE` for the node in the message, then the same command again. If the node is not yours, or its signature does not match, do not sign: somebody poses as a control plane.',
  ),
});

/** An error about what an owner is asked to sign. */
export class SignError extends errorClass(signErrors) {}
