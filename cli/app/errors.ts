import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const appErrors = defineErrors({
  'app-usage': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The command line is not one this program understands. Nothing was done.',
    fix: 'Read `cluster help COMMAND`.',
  },
  'app-defect': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'Something happened that this program did not plan for. That is a defect of the program.',
    fix: 'Run the command again with --verbose and report its output.',
  },
  'app-output-disk-full': {
    fault: 'operator',
    exit: 'diskFull',
    retryable: false,
    meaning: 'The command has done its work, but its output could not be written: the disk is full.',
    fix: 'Make room where the output goes, then run the command again.',
  },
  'app-output-lost': {
    fault: 'operator',
    exit: 'readOnly',
    retryable: false,
    meaning: 'The command has done its work, but its output could not be written.',
    fix: 'Write the output to another place, then run the command again.',
  },
  'app-unknown-error-code': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'There is no error with this code.',
    fix: '`cluster help errors` lists all codes.',
  },
});

export type AppErrorCode = keyof typeof appErrors;

export class AppError extends errorClass(appErrors) {}
