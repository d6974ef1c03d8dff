import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster explain`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('explain')
    .description('how a machine came in, or why it did not')
    .argument(
      '<node>',
      'name or id of a node, a join id, a fingerprint, or the address that a machine asks from',
    )
    .addHelpText(
      'after',
      '\nA machine whose evidence is refused has no join id yet: ask by its address.\n\nExamples:\n  cluster explain n3\n  cluster explain 198.51.100.7',
    )
    .action(
      action<object>(async (context, _flags, subject = '') =>
        (await import('../nodes/index.ts')).runExplainJoin(context, subject),
      ),
    );
}
