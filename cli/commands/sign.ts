import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { SKIP_PROMPT } from './flags.ts';

/** `cluster sign`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--yes', SKIP_PROMPT)
    .addHelpText(
      'after',
      `
Commands run by an owner sign their own changes. Use this command for records
without a valid signature: after an upgrade from a version without signatures,
after a quorum recovery, or when a signature has expired. Check the records
first:
  cluster config show
  cluster operator ls
  cluster node ls`,
    )
    .action(
      action<{ readonly yes?: true }>(async (context, { yes }) =>
        (await import('../sign/index.ts')).runSign(context, { yes: yes === true }),
      ),
    );
}
