import { defineErrors, errorClass, retryable } from '../errors/index.ts';

/** The errors of process locks and units. */
export const platformErrors = defineErrors({
  'platform-already-running': retryable.operator.locked(
    'Another process of the same program runs on this machine.',
    'Stop the process with the id in the message, or wait until it has ended.',
  ),
  'platform-lock-failed': retryable.system.internal(
    'The lock against a second process of the same program could not be acquired.',
    'Check that the directory named in the message exists and is writable.',
  ),
  'platform-unit-failed': retryable.system.partial(
    'A systemd unit did not start or did not keep running. The message has its last log lines.',
    'Run `journalctl -u UNIT` on the machine for the whole log of the unit, and correct the cause that it names.',
  ),
});

/** A process lock or a systemd unit failed. */
export class PlatformError extends errorClass(platformErrors) {}
