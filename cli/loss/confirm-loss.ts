import type { CommandContext } from '../app/command.ts';
import { LossError } from './errors.ts';

export interface Loss {
  /** What is about to be done, like "removing node n3". */
  readonly doing: string;
  /** Each thing that is gone afterwards, as a sentence. Without any nothing is asked. */
  readonly losses: readonly string[];
  /** Whether the operator has said `--yes`. */
  readonly yes: boolean;
}

/** @throws LossError `loss-not-confirmed`, `loss-declined` */
export async function confirmLoss({ host }: Pick<CommandContext, 'host'>, loss: Loss): Promise<void> {
  const { doing, losses, yes } = loss;
  if (yes || losses.length === 0) return;
  const details = { losses };
  if (!host.interactive)
    throw new LossError('loss-not-confirmed', `${doing}: ${losses.join('; ')}`, { details });
  host.say('loss', [`${capitalized(doing)} takes away:`, renderLosses(losses)].join('\n'), details);
  if (!(await host.confirm('Go on?', false))) throw new LossError('loss-declined', doing, { details });
}

/** One line for each. */
export function renderLosses(losses: readonly string[]): string {
  return losses.map((loss) => `  - ${loss}`).join('\n');
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
