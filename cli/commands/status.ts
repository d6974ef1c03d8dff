import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster status`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('status')
    .description('show cluster status')
    .option('--wide', 'show more columns and all node certificates')
    .action(
      action<{ readonly wide?: true }>(async (context, { wide }) =>
        (await import('../cluster/index.ts')).runStatus(context, { wide: wide === true }),
      ),
    );
}
