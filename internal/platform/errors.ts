import { defineErrors, errorClass } from '../errors/index.ts';

export const platformErrors = defineErrors({
  'platform-already-running': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another process of this kind runs on this machine.',
    fix: 'Leave it to the running one, or stop it first; the message names its process id.',
  },
  'platform-lock-failed': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'The lock that keeps a second process of this kind out could not be taken.',
    fix: 'Check the directory named in the message: it must exist and be writable.',
  },
  'platform-unit-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A systemd unit did not start or did not stay up; its last log lines are in the message.',
    fix: 'Read the last lines of the unit in the message; `journalctl -u UNIT` on the machine shows all of them.',
  },
});

export type PlatformErrorCode = keyof typeof platformErrors;

export class PlatformError extends errorClass(platformErrors) {}
