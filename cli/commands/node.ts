import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster node …`. */
export function register(program: Command, action: ActionBinder): void {
  const node = program.command('node').description('look at the machines of a cluster');
  node
    .command('ls')
    .description('all machines as the cluster records them')
    .option('--wide', 'more columns')
    .action(
      action<{ readonly wide?: true }>(async (context, { wide }) =>
        (await import('../cluster/index.ts')).runNodeList(context, { wide: wide === true }),
      ),
    );
}
