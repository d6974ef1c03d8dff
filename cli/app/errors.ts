import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of the command line and its output: exit code, meaning and fix by code. */
export const appErrors = defineErrors({
  'app-usage': fault.operator.usage('The command line is invalid. Nothing was done.', 'See `cluster help`.'),
  'app-defect': retryable.system.internal(
    'An unexpected error occurred: this is a bug in the program.',
    'Run the command again with --verbose and report its output.',
  ),
  'app-output-disk-full': fault.operator.diskFull(
    'The command succeeded, but its output could not be written because the disk is full.',
    'Free disk space, then run the command again.',
  ),
  'app-output-lost': fault.operator.readOnly(
    'The command succeeded, but its output could not be written.',
    'Write the output to a different file, then run the command again.',
  ),
  'app-file-exists': fault.operator.precondition(
    'The file that the command is to write exists already, with other content. It was not changed.',
    'Delete the file, or name another file, then run the same command again.',
  ),
  'app-unknown-error-code': fault.operator.usage(
    'There is no error with this code.',
    'List all codes with `cluster help errors`.',
  ),
});

/** An error about the command line and its output, with a code of the catalog. */
export class AppError extends errorClass(appErrors) {}
