import { CodedError, type CodedErrorOptions, defineErrors, fault, retryable } from '../errors/index.ts';

/** The errors of running programs. */
export const execErrors = defineErrors({
  'exec-not-found': fault.system.preflight(
    'A required program is not installed on this machine.',
    'Install the program named in the message.',
  ),
  'exec-failed': retryable.system.internal(
    'A program failed. The message has its exit code and its last output.',
    'Run the command again with `--verbose`, which shows the whole output of the program. Usual causes are a full disk (`df -h`), missing rights (run it as root) and a program of another version than expected.',
  ),
  'exec-no-space': retryable.system.diskFull(
    'A program found the disk or its quota full.',
    'Free space on the file system that the output of the program names (`df -h`), then run the same command again.',
  ),
  'exec-timeout': retryable.system.unreachable(
    'A program did not end in time and was stopped.',
    'Run the same command again: the machine may be busy. If it fails again, the last output of the program in the message shows what it waited for.',
  ),
});

/** A code of this directory. */
type ExecErrorCode = keyof typeof execErrors;

/**
 * A program failed. The error has its argv, the end of its output, and its exit code unless a signal ended
 * it.
 */
export class ExecError extends CodedError<ExecErrorCode> {
  readonly argv: readonly string[];
  readonly exitCode: number | undefined;
  readonly outputTail: string;

  constructor(
    code: ExecErrorCode,
    what: {
      readonly argv: readonly string[];
      readonly exitCode?: number | undefined;
      readonly outputTail: string;
    },
    options?: CodedErrorOptions,
  ) {
    const end = what.exitCode === undefined ? '' : ` (exit code ${what.exitCode})`;
    const tail = what.outputTail === '' ? '' : `: ${what.outputTail}`;
    super(execErrors, code, `running ${what.argv.join(' ')}${end}${tail}`, {
      ...options,
      details: { argv: what.argv, exitCode: what.exitCode, ...options?.details },
    });
    this.argv = what.argv;
    this.exitCode = what.exitCode;
    this.outputTail = what.outputTail;
  }
}
