import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';

/** `cluster verify`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('<node>', 'node name or ID')
    .option(
      '--accept-change',
      'from now on expect the machine that the node record names, if its evidence is valid',
    )
    .addHelpText(
      'after',
      '\nThe evidence is verified on this workstation. Exit code 4 if it is refused.\nA node whose record names another machine than this workspace knows is refused (nodes-machine-changed).\n\nExample:\n  cluster verify n2 --output json',
    )
    .action(
      action<{ acceptChange?: true }>(async (context, { acceptChange = false }, name = '') =>
        (await import('../../nodes/index.ts')).runVerifyNode(context, name, { acceptChange }),
      ),
    );
}
