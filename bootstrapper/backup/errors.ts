import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of taking a backup on this node. */
export const backupTaskErrors = defineErrors({
  'backup-node-not-control-plane': fault.operator.precondition(
    'This node runs no etcd now, so it cannot take a backup.',
    'Name a control plane that is up (`cluster node ls`).',
  ),
  'backup-node-mismatch': fault.peer.refused(
    'The owner’s certificate is for a backup by another node, or of another epoch of the cluster. Nothing was read.',
    'Run `cluster backup create` again.',
  ),
  'backup-certificate-used': fault.peer.refused(
    'This node has used the owner’s certificate for another backup. Each certificate is good for one. Nothing was read.',
    'Run `cluster backup create` again. If nobody has run it before, a control plane may be compromised: see `cluster audit`.',
  ),
  'backup-node-busy': retryable.system.precondition(
    'This node is taking another backup.',
    'Run the command again later, or name another control plane with --node.',
  ),
});

/** This node cannot take a backup. */
export class BackupTaskError extends errorClass(backupTaskErrors) {}
