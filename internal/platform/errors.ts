import { defineErrors, errorClass } from '../errors/index.ts';

/** The errors of process locks and units. */
export const platformErrors = defineErrors({
  'platform-already-running': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another process of the same program runs on this machine.',
    fix: 'Stop the process with the id in the message, or wait until it has ended.',
  },
  'platform-lock-failed': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'The lock against a second process of the same program could not be acquired.',
    fix: 'Check that the directory named in the message exists and is writable.',
  },
  'platform-unit-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A systemd unit did not start or did not keep running. The message has its last log lines.',
    fix: 'Run `journalctl -u UNIT` on the machine for the whole log of the unit, and correct the cause that it names.',
  },
});

/** A code of this directory. */
export type PlatformErrorCode = keyof typeof platformErrors;

/** A process lock or a systemd unit failed. */
export class PlatformError extends errorClass(platformErrors) {}
