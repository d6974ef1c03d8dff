import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster verify`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('verify')
    .description('ask a node for fresh evidence and judge it here')
    .argument('<node>', 'name or id')
    .addHelpText(
      'after',
      '\nExit code 4 when it does not show what it should.\nExample: cluster verify n2 --output json',
    )
    .action(
      action<object>(async (context, _flags, name = '') =>
        (await import('../nodes/index.ts')).runVerifyNode(context, name),
      ),
    );
}
