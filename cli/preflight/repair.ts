import { MODULES_FILE, type CheckResult, type Repair } from '../../internal/preflight/index.ts';
import type { CommandContext } from '../app/command.ts';
import { PreflightCommandError } from './errors.ts';

/**
 * Loads the modules and sets the kernel parameters that a check found wanting, and says each. Nothing else: swap, the firewall,
 * time and programs are the operator's.
 */
export async function repairMachine(context: CommandContext, results: readonly CheckResult[]): Promise<void> {
  const { host, ports } = context;
  const modules = results.flatMap(({ repair }) => (repair?.kind === 'load-module' ? [repair] : []));
  const sysctls = results.flatMap(({ repair }) => (repair?.kind === 'set-sysctl' ? [repair] : []));
  for (const repair of [...modules, ...sysctls]) await carryOut(context, repair);
  if ((await ports.files.stat(MODULES_FILE)) === undefined)
    host.warn(
      'preflight-fix-until-reboot',
      'This holds until the machine is booted again. The package cluster-agent keeps it for good.',
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
