import { join } from 'node:path';
import type { CommandContext } from '../app/command.ts';
import { MiniError } from './errors.ts';

/**
 * The agent's Debian package for this machine: the one that was named, or the newest one beside
 * this program or in the checkout's `dist`.
 */
export async function findAgentPackage(
  context: CommandContext,
  options: {
    readonly named: string | undefined;
    readonly architecture: string;
    readonly directories: readonly string[];
  },
): Promise<string> {
  const { files } = context.ports;
  if (options.named !== undefined) {
    if ((await files.stat(options.named))?.kind === 'file') return options.named;
    throw new MiniError('mini-no-agent', `agent package not found: there is no file ${options.named}`);
  }
  const found: { readonly path: string; readonly modifiedMs: number }[] = [];
  for (const folder of options.directories) {
    for (const name of await files.list(folder)) {
      if (!name.startsWith('cluster-agent_') || !name.endsWith(`_${options.architecture}.deb`)) continue;
      const path = join(folder, name);
      found.push({ path, modifiedMs: (await files.stat(path))?.modifiedMs ?? 0 });
    }
  }
  const newest = found.sort((a, b) => b.modifiedMs - a.modifiedMs)[0];
  if (newest !== undefined) return newest.path;
  const wanted = `cluster-agent_*_${options.architecture}.deb`;
  throw new MiniError('mini-no-agent', `${wanted} not found in ${options.directories.join(', ')}`);
}

/** Beside the program file (an installed one), or in the checkout's `dist` (sources and built files). */
export function packageDirectories(programFolder: string): readonly string[] {
  return [join(programFolder, '../../dist'), programFolder];
}

/** Debian's name of the architecture this program runs on. */
export async function debianArchitecture(context: CommandContext): Promise<string> {
  const { stdout } = await context.ports.commands.run({
    argv: ['dpkg', '--print-architecture'],
    signal: context.signal,
  });
  return stdout.trim();
}
