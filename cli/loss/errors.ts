import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const lossErrors = defineErrors({
  'loss-not-confirmed': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The command takes something away, and nobody could be asked whether it may: there is no terminal, or --no-input was given. Nothing was changed.',
    fix: 'Read what would be lost with --dry-run, then run the command with --yes.',
  },
  'loss-declined': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The operator answered no. Nothing was changed.',
    fix: 'Run the command again and answer yes, if what it names may be lost.',
  },
});

export type LossErrorCode = keyof typeof lossErrors;

export class LossError extends errorClass(lossErrors) {}
