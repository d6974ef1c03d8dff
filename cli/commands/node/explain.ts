import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { ExplainOptions } from '../../nodes/index.ts';

/** `cluster explain`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('<node>', 'node name or ID, join ID, fingerprint or IP address of the machine')
    .option('--html [file]', 'write the trace as a page for a browser instead (default: explain-NODE.html)')
    .addHelpText(
      'after',
      `
A machine whose evidence is refused has no join ID: use its IP address.

Examples:
  cluster explain n3
  cluster explain n3 --html
  cluster explain 198.51.100.7`,
    )
    .action(
      action<ExplainOptions>(async (context, options, subject = '') =>
        (await import('../../nodes/index.ts')).runExplainJoin(context, subject, options),
      ),
    );
}
