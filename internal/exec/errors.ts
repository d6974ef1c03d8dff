import { CodedError, defineErrors, type CodedErrorOptions } from '../errors/index.ts';

export const execErrors = defineErrors({
  'exec-not-found': {
    fault: 'system',
    exit: 'preflight',
    retryable: false,
    meaning: 'A program that is needed is not on this machine.',
    fix: 'Install the program named in the message.',
  },
  'exec-failed': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'A program ended with an error; its last output is in the message.',
    fix: 'Read the last output of the program; run with --verbose for all of it.',
  },
  'exec-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A program did not end within its time and was stopped.',
    fix: 'See what the program waited for in its last output; a busy machine may need another try.',
  },
});

export type ExecErrorCode = keyof typeof execErrors;

/** Keeps the evidence: argv, exit code or signal, and the tail of the output. */
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
