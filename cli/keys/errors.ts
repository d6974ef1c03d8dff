import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors about the keys that control planes share. */
export const keysErrors = defineErrors({
  'keys-still-accepted': retryable.system.partial(
    'A node was removed, or keys were replaced, but after three minutes a part of the cluster still accepted the old credentials, knew the node, or did not answer.',
    'Run `cluster node remove NODE-ID` (or `cluster keys rotate`) again: it repeats the checks. See `cluster status` for control planes that do not respond.',
  ),
  'keys-rotation-stalled': retryable.system.partial(
    'The rotation of the shared keys has made no progress for ten minutes because it waits for nodes.',
    'See `cluster keys show` for the nodes for which the rotation waits. Start these nodes, or remove the nodes that will not come back; the rotation then continues. `cluster keys rotate` shows its progress.',
  ),
  'keys-rotation-unsupported': fault.operator.precondition(
    'The control planes run a version that cannot rotate the shared keys.',
    'Upgrade the agent on every node, then run the same command again.',
  ),
});

/** An error about the keys that control planes share. */
export class KeysError extends errorClass(keysErrors) {}
