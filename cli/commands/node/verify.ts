import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';

/** `cluster verify`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('<node>', 'node name or ID')
    .addHelpText(
      'after',
      '\nThe evidence is verified on this workstation. Exit code 4 if it is refused.\n\nExample:\n  cluster verify n2 --output json',
    )
    .action(
      action<object>(async (context, _flags, name = '') =>
        (await import('../../nodes/index.ts')).runVerifyNode(context, name),
      ),
    );
}
