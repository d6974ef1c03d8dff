import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of confirming a loss. */
export const lossErrors = defineErrors({
  'loss-not-confirmed': fault.operator.usage(
    'The command deletes something and needs confirmation, but there is no terminal, or --no-input was given. Nothing was changed.',
    'Run the command with --dry-run to see the loss, then with --yes.',
  ),
  'loss-declined': fault.operator.precondition(
    'The loss was not confirmed. Nothing was changed.',
    'To accept the loss, run the command again and answer yes.',
  ),
});

/** A loss was not confirmed. */
export class LossError extends errorClass(lossErrors) {}
