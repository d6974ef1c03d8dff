import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const resetErrors = defineErrors({
  'reset-not-authorized': fault.operator.refused(
    'The order to reset this machine is not signed by an owner key of its provisioning, or is for another machine. Nothing was changed.',
    'Run `cluster node reset` in a workspace whose owner key is in /etc/cluster/provisioning.json of the machine.',
  ),
  'reset-started': retryable.operator.partial(
    'An owner has ordered a reset of this machine. The agent stops and carries out the reset when systemd starts it again.',
    'Nothing to do: the reset continues automatically.',
  ),
  'reset-still-mounted': retryable.system.partial(
    'A file system is still mounted in a directory that the reset deletes. Nothing was deleted there, because the mounted file system may hold data of another program.',
    'Find the processes that use the mount (`fuser -vm PATH` on the machine), stop them and unmount it; the agent retries automatically.',
  ),
  'reset-not-restarted': retryable.system.partial(
    'The state of this machine is deleted, and it must reboot to clear the TPM register that shows its old lock, but `systemctl reboot` failed.',
    'Reboot the machine manually. The reset then completes automatically.',
  ),
});

/** An error with a code of this directory. */
export class ResetError extends errorClass(resetErrors) {}
