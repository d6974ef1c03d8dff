import { join } from 'node:path';
import type { CommandContext } from '../app/command.ts';
import { MiniError } from './errors.ts';

/**
 * Path of the agent's Debian package: the given path, else the newest package in the directories.
 * @throws MiniError `mini-no-agent`
 */
export async function findAgentPackage(
  context: CommandContext,
  options: {
    readonly path: string | undefined;
    readonly architecture: string;
    readonly directories: readonly string[];
  },
): Promise<string> {
  const { files } = context.ports;
  if (options.path !== undefined) {
    if ((await files.stat(options.path))?.kind === 'file') return options.path;
    throw new MiniError('mini-no-agent', `agent package ${options.path} not found`);
  }
  const found: { readonly path: string; readonly modifiedMs: number }[] = [];
  for (const directory of options.directories) {
    for (const name of await files.list(directory)) {
      if (!name.startsWith('cluster-agent_') || !name.endsWith(`_${options.architecture}.deb`)) continue;
      const path = join(directory, name);
      found.push({ path, modifiedMs: (await files.stat(path))?.modifiedMs ?? 0 });
    }
  }
  const newest = found.sort((a, b) => b.modifiedMs - a.modifiedMs)[0];
  if (newest !== undefined) return newest.path;
  const wanted = `cluster-agent_*_${options.architecture}.deb`;
  throw new MiniError('mini-no-agent', `${wanted} not found in ${options.directories.join(', ')}`);
}

/** Where packages are searched: `dist` of a checkout, and the directory of the installed program. */
export function packageDirectories(programDirectory: string): readonly string[] {
  return [join(programDirectory, '../../dist'), programDirectory];
}

/** The architecture of this machine, as Debian names it. */
export async function debianArchitecture(context: CommandContext): Promise<string> {
  const { stdout } = await context.ports.commands.run({
    argv: ['dpkg', '--print-architecture'],
    signal: context.signal,
  });
  return stdout.trim();
}
