import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { DashboardOptions } from '../../dashboard/index.ts';

/** `cluster dashboard`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .addHelpText(
      'after',
      `
Shows nodes, what each waits for, quorum, certificates, recent decisions,
resources and live logs. Nothing can be changed; the cluster decides what the
role of the caller may see.

Examples:
  cluster dashboard`,
    )
    .action(
      action<DashboardOptions>(async (context, options) =>
        (await import('../../dashboard/index.ts')).runDashboard(context, options),
      ),
    );
}
