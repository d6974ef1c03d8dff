import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster status`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--wide', 'show more columns and all node certificates')
    .action(
      action<{ readonly wide?: true }>(async (context, { wide }) =>
        (await import('../cluster/index.ts')).runStatus(context, { wide: wide === true }),
      ),
    );
}
