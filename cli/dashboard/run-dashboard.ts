import type { CommandContext } from '../app/command.ts';

/** Flags of `cluster dashboard`. */
export interface DashboardOptions {
  /** Serve a page on this machine instead of drawing on the terminal. */
  readonly web?: true;
  /** Port of the page; default: a free one. */
  readonly port?: number;
}

/** `cluster dashboard`: shows the cluster until the user ends it. */
export async function runDashboard(context: CommandContext, _options: DashboardOptions): Promise<void> {
  const { runTerminal } = await import('./terminal/run-terminal.ts');
  return runTerminal(context);
}
