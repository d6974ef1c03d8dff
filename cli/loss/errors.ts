import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Errors of confirming a loss. */
export const lossErrors = defineErrors({
  'loss-not-confirmed': {
    fault: 'operator',
    exit: 'usage',
    meaning:
      'The command deletes something and needs confirmation, but there is no terminal, or --no-input was given. Nothing was changed.',
    fix: 'Run the command with --dry-run to see the loss, then with --yes.',
  },
  'loss-declined': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The loss was not confirmed. Nothing was changed.',
    fix: 'To accept the loss, run the command again and answer yes.',
  },
});

/** Code of a `LossError`. */
export type LossErrorCode = keyof typeof lossErrors;

/** A loss was not confirmed. */
export class LossError extends errorClass(lossErrors) {}
