import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const nodeLockErrors = defineErrors({
  'nodelock-damaged': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'The lock that binds this machine to a cluster is damaged. Nothing was changed: it might be a member.',
    fix: 'Restore the file named in the message from a backup. If the machine is no node of any cluster (`cluster node ls`), make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'nodelock-register-mismatch': {
    fault: 'system',
    exit: 'refused',
    retryable: false,
    meaning:
      'The register that shows the lock of this machine was extended by something else; evidence of it would be refused everywhere. Workloads go on.',
    fix: 'Find what extends the register (`tpm.lockPcr` in the provisioning file names it), choose another one, then restart the machine; values of a running boot cannot be taken back.',
  },
  'nodelock-held': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This machine is already bound to a cluster, by another init or by a join.',
    fix: 'Use the cluster named in the message. If that cluster is no more, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
});

export type NodeLockErrorCode = keyof typeof nodeLockErrors;

export class NodeLockError extends errorClass(nodeLockErrors) {}
