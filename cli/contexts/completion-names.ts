import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import type { CommandContext } from '../app/command.ts';
import { listContexts } from './known-contexts.ts';

/** The kinds of names that completion scripts ask for. `machines`: those of local clusters. */
export const NAME_KINDS = ['nodes', 'contexts', 'local-clusters', 'machines'] as const;

/** One of NAME_KINDS. */
export type NameKind = (typeof NAME_KINDS)[number];

const MAX_BYTES = 1024 * 1024;
const nodesShape = z.object({ nodes: z.array(z.object({ name: z.string() })) });
/** Shells split names at other characters, and a name from a file must not be shell code. */
const SAFE = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/;

/**
 * `cluster completion names`: prints names, one a line, from files on this workstation only: a shell waits for it at
 * each key. Node names are those that a curator listed last. A file that cannot be read yields no names.
 */
export async function runCompletionNames(context: CommandContext, kind: NameKind): Promise<void> {
  const names = (await readNames(context, kind).catch(() => [])).filter((name) => SAFE.test(name));
  context.host.result({ names }, () => names.join('\n'));
}

async function readNames(context: CommandContext, kind: NameKind): Promise<readonly string[]> {
  const { ports, paths } = context;
  const mini = join(paths.data, 'mini');
  switch (kind) {
    case 'nodes':
      return readNodes(context);
    case 'contexts':
      return (await listContexts(ports.files, paths)).map(({ name }) => name);
    case 'local-clusters':
      return ports.files.list(mini);
    case 'machines': {
      const clusters = await ports.files.list(mini);
      const lists = clusters.map((name) => ports.files.list(join(mini, name, 'nodes')));
      return [...new Set((await Promise.all(lists)).flat())].sort();
    }
  }
}

/**
 * Names from the last saved list of nodes: the list of the operator identity, in the directory beside the identity
 * file, else the list of the workspace.
 */
async function readNodes({ ports, paths }: CommandContext): Promise<readonly string[]> {
  const { workspace, identity = join(workspace, 'identity.json') } = paths;
  const own = join(dirname(identity), basename(identity, '.json'));
  for (const directory of [own, workspace]) {
    const raw = await ports.files.read(join(directory, 'nodes.json'), MAX_BYTES);
    if (raw === undefined) continue;
    const { data } = nodesShape.safeParse(JSON.parse(Buffer.from(raw).toString('utf8')));
    if (data !== undefined) return data.nodes.map(({ name }) => name);
  }
  return [];
}
