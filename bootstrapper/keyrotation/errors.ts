import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const keyRotationErrors = defineErrors({
  'keyrotation-keys-unavailable': retryable.system.unreachable(
    'The shared keys of control planes are being rotated, and this control plane has not received the new keys yet.',
    'Wait a few minutes: this node retries automatically. If it does not help, check cluster-joinservice.service and cluster-signer.service on the node that `cluster keys show` names.',
  ),
  'keyrotation-keys-unsigned': fault.peer.refused(
    'This node was told to install shared keys of control planes that no owner has signed, or other keys than an owner signed.',
    'If the keys were rotated by an earlier version, ask an owner to run `cluster sign`. Otherwise somebody who has a key of the cluster is in the path to its control planes: find out who.',
  ),
  'keyrotation-generation-old': fault.peer.refused(
    'This node was told to install shared keys that are older than the keys that it has used.',
    'If the cluster was restored from a backup, ask an owner to run `cluster keys rotate`. Otherwise somebody who has old keys of the cluster is in the path to its control planes: find out who.',
  ),
  'keyrotation-stage-damaged': fault.system.needsReset(
    'The file that tells which shared keys this node has replaced is damaged, so the node could not refuse older keys.',
    'Reset the node with `cluster node reset NODE`, and let it join again.',
  ),
});

/** An error with a code of this directory. */
export class KeyRotationError extends errorClass(keyRotationErrors) {}
