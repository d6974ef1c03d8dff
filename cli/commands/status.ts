import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster status`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('status')
    .description('what of the cluster is where, and in which state')
    .option('--wide', 'more columns, and every certificate of every node with the time it has left')
    .action(
      action<{ readonly wide?: true }>(async (context, { wide }) =>
        (await import('../cluster/index.ts')).runStatus(context, { wide: wide === true }),
      ),
    );
}
