import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const resetErrors = defineErrors({
  'reset-not-authorized': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'An order to become a fresh machine is not signed by an owner whose key this machine was provisioned with, or is for another machine. Nothing was touched.',
    fix: 'Run `cluster node reset` in the workspace whose owner key is in /etc/cluster/provisioning.json of the machine.',
  },
  'reset-started': {
    fault: 'operator',
    exit: 'partial',
    retryable: true,
    meaning:
      'The owner has ordered this machine to be fresh; the agent ends and does so when it starts again.',
    fix: 'Nothing: it goes on by itself.',
  },
  'reset-still-mounted': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'A file system is still mounted in a directory that a reset empties. Nothing was deleted there, because what is mounted may be somebody else’s data.',
    fix: 'See on the machine what holds the path in the message (`fuser -vm PATH`) and unmount it; the agent tries again by itself.',
  },
  'reset-not-restarted': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The state of this machine is deleted, and the machine has to be started anew to clear the TPM register that shows its old lock, but `systemctl reboot` failed.',
    fix: 'Restart the machine by hand. The reset then completes by itself.',
  },
});

export type ResetErrorCode = keyof typeof resetErrors;

export class ResetError extends errorClass(resetErrors) {}
