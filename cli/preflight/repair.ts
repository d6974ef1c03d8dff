import type { StreamPort } from '../../internal/file/index.ts';
import { MODULES_FILE, sysctlPath, type CheckResult, type Repair } from '../../internal/preflight/index.ts';
import type { CommandContext } from '../app/command.ts';
import { PreflightCommandError } from './errors.ts';

/** Access to the files of kernel parameters. */
export interface RepairableMachine {
  readonly streams: Pick<StreamPort, 'writeAt'>;
}

/**
 * Loads the kernel modules and sets the kernel parameters that failed a check. Leaves swap, firewall, time service and programs
 * to the operator.
 * @throws PreflightCommandError `preflight-fix-failed`
 */
export async function repairMachine(
  context: CommandContext,
  local: RepairableMachine,
  results: readonly CheckResult[],
): Promise<void> {
  const { host, ports } = context;
  const modules = results.flatMap(({ repair }) => (repair?.kind === 'load-module' ? [repair] : []));
  const sysctls = results.flatMap(({ repair }) => (repair?.kind === 'set-sysctl' ? [repair] : []));
  for (const repair of [...modules, ...sysctls]) await carryOut(context, local, repair);
  if ((await ports.files.stat(MODULES_FILE)) === undefined)
    host.warn(
      'preflight-fix-until-reboot',
      'The changes are lost at the next reboot. Install the package cluster-agent to keep them.',
    );
}

async function carryOut(
  { host, ports, signal }: CommandContext,
  { streams }: RepairableMachine,
  repair: Repair,
): Promise<void> {
  const isModule = repair.kind === 'load-module';
  const what = isModule ? `modprobe ${repair.module}` : `${repair.key} = ${repair.value}`;
  try {
    if (isModule) await ports.commands.run({ argv: ['modprobe', repair.module], signal });
    // Not with `sysctl`: the agent's package only recommends the package that has it.
    else await streams.writeAt(sysctlPath(repair.key), 0, Buffer.from(`${repair.value}\n`));
  } catch (cause) {
    signal.throwIfAborted();
    const doing = isModule ? `running \`${what}\`` : `setting ${what}`;
    throw new PreflightCommandError('preflight-fix-failed', doing, { cause });
  }
  host.say('preflight-fixed', `Fixed: ${what}`, { ...repair });
}
