import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import { WATCH_FLAG } from '../flags.ts';
import type { StatusOptions } from '../../cluster/index.ts';

/** `cluster status`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--wide', 'show more columns and all node certificates')
    .option(...WATCH_FLAG)
    .action(
      action<StatusOptions>(async (context, options) => {
        const [{ runStatus }, { unfinishedRemovals }] = await Promise.all([
          import('../../cluster/index.ts'),
          import('../../nodes/index.ts'),
        ]);
        return runStatus(context, { ...options, problemsOfWorkspace: unfinishedRemovals });
      }),
    );
}
