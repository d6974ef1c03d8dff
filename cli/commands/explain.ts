import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster explain`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('explain')
    .description('how a machine came in, or why it did not')
    .argument('<node>', 'name or id of a node, or a join id')
    .addHelpText('after', '\nExample: cluster explain n3')
    .action(
      action<object>(async (context, _flags, subject = '') =>
        (await import('../admin/index.ts')).runExplainJoin(context, subject),
      ),
    );
}
