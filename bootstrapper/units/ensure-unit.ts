import type { CommandRunner } from '../../internal/exec/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';

const COMMAND_MS = 20_000;

/**
 * Writes a unit file and starts the unit. A running unit is restarted only if the file has changed since the
 * unit started, or if `requireRestart` was called.
 * @returns whether a running unit was restarted
 */
export async function ensureUnit(
  units: UnitPort,
  { unit, content }: { readonly unit: string; readonly content: string },
  signal: AbortSignal,
): Promise<boolean> {
  const isPending = await units.install(unit, content, signal);
  const isActive = (await units.status(unit, signal)).active === 'active';
  if (!isActive) await units.start(unit, signal);
  else if (isPending) await units.restart(unit, signal);
  return isActive && isPending;
}

/** Creates a system user and its group unless they exist (sysusers.d(5)). */
export async function ensureSystemUser(
  commands: CommandRunner,
  { user, description }: { readonly user: string; readonly description: string },
  signal: AbortSignal,
): Promise<void> {
  const account = `u ${user} - "${description} (cluster)" /nonexistent`;
  await commands.run({ argv: ['systemd-sysusers', '--inline', account], timeoutMs: COMMAND_MS, signal });
}
