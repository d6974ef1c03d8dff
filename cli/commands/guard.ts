import type { Command } from 'commander';
import type { CommandContext } from '../app/command.ts';
import type { GuardedChange } from '../doctor/index.ts';
import { withConfirmFlags } from './flags.ts';

/** Flags added by `withSkipChecks`. */
export interface GuardFlags {
  readonly skipChecks?: true;
}

/** Adds the flags of commands that change or restart members of etcd. @param yes help text of `--yes` */
export function withGuardFlags(command: Command, yes?: string): Command {
  return withSkipChecks(withConfirmFlags(command, yes));
}

/** Adds the flag that skips the gate of a command. */
export function withSkipChecks(command: Command): Command {
  return command.option('--skip-checks', 'make the change although the doctor finds a problem of etcd');
}

/** Refuses the change while the doctor finds a problem that the change would make worse. @throws DoctorError `doctor-change-unsafe` */
export async function guard(
  context: CommandContext,
  { skipChecks = false }: { readonly skipChecks?: boolean },
  change: Omit<GuardedChange, 'skipChecks'>,
): Promise<void> {
  const { requireSafeChange } = await import('../doctor/index.ts');
  await requireSafeChange(context, { ...change, skipChecks });
}
