import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error catalog of the command line and its output: exit code, meaning and fix by code. */
export const appErrors = defineErrors({
  'app-usage': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'The command line is invalid. Nothing was done.',
    fix: 'See `cluster help`.',
  },
  'app-defect': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'An unexpected error occurred: this is a bug in the program.',
    fix: 'Run the command again with --verbose and report its output.',
  },
  'app-output-disk-full': {
    fault: 'operator',
    exit: 'diskFull',
    meaning: 'The command succeeded, but its output could not be written because the disk is full.',
    fix: 'Free disk space, then run the command again.',
  },
  'app-output-lost': {
    fault: 'operator',
    exit: 'readOnly',
    meaning: 'The command succeeded, but its output could not be written.',
    fix: 'Write the output to a different file, then run the command again.',
  },
  'app-unknown-error-code': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'There is no error with this code.',
    fix: 'List all codes with `cluster help errors`.',
  },
});

/** An error about the command line and its output, with a code of the catalog. */
export class AppError extends errorClass(appErrors) {}
