import type { ExitName } from '../../internal/errors/index.ts';
import {
  checkHost,
  describeMissing,
  requiredPackages,
  type MachineType,
} from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { requirementsOf } from './create-machines.ts';
import { machineHostFrom } from './paths.ts';

const KINDS: Readonly<Record<MachineType, string>> = { container: 'containers', vm: 'virtual machines' };

/** `cluster mini preflight`: lists missing requirements of local clusters and the commands that install them. */
export async function runMiniPreflight(
  context: CommandContext,
  { machines: type }: { readonly machines: MachineType },
): Promise<ExitName> {
  const requirements = requirementsOf(type);
  const { missing: lacks, commands } = await checkHost(machineHostFrom(context), {
    requirements,
    directories: [context.paths.data, context.paths.cache],
    signal: context.signal,
  });
  const ready = lacks.length === 0;
  const packages = requiredPackages(requirements);
  context.host.result({ machines: type, ready, lacks, commands, packages }, () =>
    ready
      ? `This machine can run local clusters of ${KINDS[type]}.`
      : [
          `This machine cannot run local clusters of ${KINDS[type]}:`,
          ...lacks.map((each) => `  ${describeMissing(each)}`),
          'To fix this, run:',
          ...commands.map((command) => `  ${command}`),
        ].join('\n'),
  );
  return ready ? 'ok' : 'preflight';
}
