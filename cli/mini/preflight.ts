import { hostRequirements, checkHost, requiredPackages } from '../../internal/localmachines/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { machineHostFrom } from './paths.ts';

/** `cluster mini preflight`: lists missing requirements of local clusters and the commands that install them. */
export async function runMiniPreflight(context: CommandContext): Promise<ExitName> {
  const { missing: lacks, commands } = await checkHost(machineHostFrom(context), {
    requirements: hostRequirements,
    directories: [context.paths.data, context.paths.cache],
    signal: context.signal,
  });
  const packages = requiredPackages(hostRequirements);
  context.host.result({ ready: lacks.length === 0, lacks, commands, packages }, () =>
    lacks.length === 0
      ? 'This machine can run local clusters.'
      : [
          'Missing on this machine:',
          ...lacks.map(({ kind, name }) => `  ${name} (${kind})`),
          'To install:',
          ...commands.map((command) => `  ${command}`),
        ].join('\n'),
  );
  return lacks.length === 0 ? 'ok' : 'preflight';
}
