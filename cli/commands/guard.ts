import type { Command } from 'commander';
import type { CommandContext } from '../app/command.ts';
import type { GuardedChange } from '../doctor/index.ts';
import { withConfirmFlags } from './flags.ts';

/** Flags added by `withGuardFlags`, besides those of `withConfirmFlags`. */
export interface GuardFlags {
  readonly skipChecks?: true;
}

/** Adds the flags of commands that change or restart members of etcd. @param yes help text of `--yes` */
export function withGuardFlags(command: Command, yes?: string): Command {
  return withConfirmFlags(command, yes).option(
    '--skip-checks',
    'make the change although the doctor finds an error of etcd',
  );
}

/** Refuses the change while the doctor finds an error of etcd that the change would make worse. @throws DoctorError `doctor-change-unsafe` */
export async function guard(
  context: CommandContext,
  { skipChecks = false }: { readonly skipChecks?: boolean },
  change: Omit<GuardedChange, 'skipChecks'>,
): Promise<void> {
  const { requireSafeChange } = await import('../doctor/index.ts');
  await requireSafeChange(context, { ...change, skipChecks });
}
