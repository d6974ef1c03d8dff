import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import { wholeNumber } from '../flags.ts';
import type { DashboardOptions } from '../../dashboard/index.ts';

/** `cluster dashboard`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--web', 'serve a page for a browser on this machine instead, until interrupted')
    .option('--port <port>', 'port of the page (default: a free one)', wholeNumber(1, 65_535))
    .addHelpText(
      'after',
      `
Shows nodes, what each waits for, quorum, certificates, recent decisions,
resources and live logs. Nothing can be changed; the cluster decides what the
role of the caller may see. The page is for one browser: its address has a token
that works once. Over ssh, forward its port: ssh -L 8600:127.0.0.1:8600 HOST.

Examples:
  cluster dashboard
  cluster dashboard --web
  cluster dashboard --web --port 8600`,
    )
    .action(
      action<DashboardOptions>(async (context, options) =>
        (await import('../../dashboard/index.ts')).runDashboard(context, options),
      ),
    );
}
