import type { CommandContext } from '../app/command.ts';
import { AppError } from '../app/errors.ts';

/** Flags of `cluster dashboard`. */
export interface DashboardOptions {
  /** Serve a page on this machine instead of drawing on the terminal. */
  readonly web?: true;
  /** Port of the page; default: a free one. */
  readonly port?: number;
}

/** `cluster dashboard`: shows the cluster until the user ends it. @throws DashboardError, ClusterError */
export async function runDashboard(context: CommandContext, { web, port }: DashboardOptions): Promise<void> {
  if (web === true) return (await import('./web/serve-page.ts')).servePage(context, port ?? 0);
  if (port !== undefined) throw new AppError('app-usage', '--port needs --web');
  return (await import('./terminal/run-terminal.ts')).runTerminal(context);
}
