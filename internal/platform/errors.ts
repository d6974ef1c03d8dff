import { CodedError, defineErrors, type CodedErrorOptions } from '../errors/index.ts';

export const platformErrors = defineErrors({
  'unit-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A systemd unit did not start or did not stay up; its last log lines are in the message.',
    fix: 'Read the last lines of the unit in the message; `journalctl -u UNIT` on the machine shows all of them.',
  },
});

export type PlatformErrorCode = keyof typeof platformErrors;

export class PlatformError extends CodedError<PlatformErrorCode> {
  constructor(code: PlatformErrorCode, message: string, options?: CodedErrorOptions) {
    super(platformErrors, code, message, options);
  }
}
