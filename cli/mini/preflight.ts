import type { ExitName } from '../../internal/errors/index.ts';
import {
  checkHost,
  describeMissing,
  hostRequirements,
  requiredPackages,
} from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { machineHostFrom } from './paths.ts';

/** `cluster mini preflight`: lists missing requirements of local clusters and the commands that install them. */
export async function runMiniPreflight(context: CommandContext): Promise<ExitName> {
  const { missing: lacks, commands } = await checkHost(machineHostFrom(context), {
    requirements: hostRequirements,
    directories: [context.paths.data, context.paths.cache],
    signal: context.signal,
  });
  const ready = lacks.length === 0;
  const packages = requiredPackages(hostRequirements);
  context.host.result({ ready, lacks, commands, packages }, () =>
    ready
      ? 'This machine can run local clusters.'
      : [
          'This machine cannot run local clusters:',
          ...lacks.map((each) => `  ${describeMissing(each)}`),
          'To fix this, run:',
          ...commands.map((command) => `  ${command}`),
        ].join('\n'),
  );
  return ready ? 'ok' : 'preflight';
}
