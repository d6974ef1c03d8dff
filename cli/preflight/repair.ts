import { MODULES_FILE, type CheckResult, type Repair } from '../../internal/preflight/index.ts';
import type { CommandContext } from '../app/command.ts';
import { PreflightCommandError } from './errors.ts';

/**
 * Loads the kernel modules and sets the kernel parameters that failed a check. Leaves swap, firewall, time service and programs
 * to the operator.
 * @throws PreflightCommandError `preflight-fix-failed`
 */
export async function repairMachine(context: CommandContext, results: readonly CheckResult[]): Promise<void> {
  const { host, ports } = context;
  const modules = results.flatMap(({ repair }) => (repair?.kind === 'load-module' ? [repair] : []));
  const sysctls = results.flatMap(({ repair }) => (repair?.kind === 'set-sysctl' ? [repair] : []));
  for (const repair of [...modules, ...sysctls]) await carryOut(context, repair);
  if ((await ports.files.stat(MODULES_FILE)) === undefined)
    host.warn(
      'preflight-fix-until-reboot',
      'The changes are lost at the next reboot. Install the package cluster-agent to keep them.',
    );
}

async function carryOut({ host, ports, signal }: CommandContext, repair: Repair): Promise<void> {
  const argv = argvOf(repair);
  try {
    await ports.commands.run({ argv, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new PreflightCommandError('preflight-fix-failed', `running \`${argv.join(' ')}\``, { cause });
  }
  host.say('preflight-fixed', `Fixed: ${argv.join(' ')}`, { ...repair });
}

function argvOf(repair: Repair): readonly [string, ...string[]] {
  return repair.kind === 'load-module'
    ? ['modprobe', repair.module]
    : ['sysctl', '--quiet', '--write', `${repair.key}=${repair.value}`];
}
