import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';

/** `cluster explain`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('<node>', 'node name or ID, join ID, fingerprint or IP address of the machine')
    .addHelpText(
      'after',
      `
A machine whose evidence is refused has no join ID: use its IP address.

Examples:
  cluster explain n3
  cluster explain 198.51.100.7`,
    )
    .action(
      action(async (context, _flags, subject = '') =>
        (await import('../../nodes/index.ts')).runExplainJoin(context, subject),
      ),
    );
}
