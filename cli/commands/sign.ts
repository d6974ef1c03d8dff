import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster sign`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('sign')
    .description('sign what is on record: the configuration, the operators, the control planes; owners only')
    .option('--yes', 'do not ask: what is on record was looked at')
    .addHelpText(
      'after',
      '\nCommands of an owner sign what they change. This one is for what nobody signed: a cluster from before such signatures,' +
        '\nafter a recovery of the quorum, or when a signature has ended. Look at `cluster config show`, `cluster operator ls` and' +
        '\n`cluster node ls` first: whatever is on record counts from then on.' +
        '\n\nExample:\n  cluster sign',
    )
    .action(
      action<{ readonly yes?: true }>(async (context, { yes }) =>
        (await import('../sign/index.ts')).runSign(context, { yes: yes === true }),
      ),
    );
}
