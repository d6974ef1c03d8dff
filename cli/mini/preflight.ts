import { hostRequirements, preflight, requiredPackages } from '../../internal/machines/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { machineHostFrom } from './places.ts';

/** What this machine lacks for local clusters, and the commands that bring it. Changes nothing. */
export async function runMiniPreflight(context: CommandContext): Promise<ExitName> {
  const { lacks, commands } = await preflight(machineHostFrom(context), {
    requirements: hostRequirements,
    folders: [context.paths.data, context.paths.cache],
    signal: context.signal,
  });
  const packages = requiredPackages(hostRequirements);
  context.host.result({ ready: lacks.length === 0, lacks, commands, packages }, () =>
    lacks.length === 0
      ? 'This machine has everything that local clusters need.'
      : [
          'This machine lacks:',
          ...lacks.map(({ kind, name }) => `  ${name} (${kind})`),
          'What brings it:',
          ...commands.map((command) => `  ${command}`),
        ].join('\n'),
  );
  return lacks.length === 0 ? 'ok' : 'preflight';
}
