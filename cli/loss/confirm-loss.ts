import type { CommandContext } from '../app/command.ts';
import { LossError } from './errors.ts';

/** The loss that a command would cause. */
export interface Loss {
  /** The command in the gerund, like "removing node n3". */
  readonly doing: string;
  /** The data that the command deletes. If the list is empty, the user is not asked. */
  readonly losses: readonly string[];
  /** Whether `--yes` was given. */
  readonly yes: boolean;
}

/** Resolves if the loss is confirmed. @throws LossError `loss-not-confirmed`, `loss-declined` */
export async function confirmLoss({ host }: Pick<CommandContext, 'host'>, loss: Loss): Promise<void> {
  const { doing, losses, yes } = loss;
  if (yes || losses.length === 0) return;
  const details = { losses };
  if (!host.interactive)
    throw new LossError(
      'loss-not-confirmed',
      `${doing}: nothing was changed; the consequences would be: ${losses.join('; ')}`,
      { details },
    );
  host.say(
    'loss',
    [`${capitalized(doing)} has these consequences:`, renderLosses(losses)].join('\n'),
    details,
  );
  if (!(await host.confirm('Continue?', false))) throw new LossError('loss-declined', doing, { details });
}

/** A list with one line for each loss. */
export function renderLosses(losses: readonly string[]): string {
  return losses.map((loss) => `  - ${loss}`).join('\n');
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
