import { join } from 'node:path';
import { z } from 'zod';
import { formatDuration } from '../../../internal/clock/index.ts';
import { readJson } from '../../../internal/file/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import { roleNames } from '../../../internal/role/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatTable } from '../../host/index.ts';
import type { Caller } from '../curator/caller.ts';
import type { NodeView } from './node-view.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_NODES = 1_000;
const text = z.string().max(256);
const shape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string(),
  timeMs: z.int().min(0),
  nodes: z
    .array(z.strictObject({ id: text, name: text, roles: z.array(text).max(8), address: text }))
    .max(MAX_NODES),
});

/** The nodes that a curator listed last, and when. Not authenticated: for display only. */
export type LastNodes = Pick<z.infer<typeof shape>, 'timeMs' | 'nodes'>;

/** Saves the nodes that a curator has listed, so that `cluster status` can show them while no curator can list them. */
export async function saveLastNodes(
  { ports }: CommandContext,
  { directory, clusterId }: Caller,
  views: readonly NodeView[],
): Promise<void> {
  const nodes = views.map(({ id, name, roles, address }) => ({ id, name, roles, address }));
  const parsed = shape.safeParse({ version: 1, clusterId, timeMs: ports.clock.nowMs(), nodes });
  if (!parsed.success) return;
  await ports.files.makeDirectory(directory);
  await ports.files.writeAtomic(pathIn(directory), `${JSON.stringify(parsed.data)}\n`, { mode: 0o600 });
}

/** The nodes that a curator listed last; undefined if none has, or if the file is damaged. */
export async function readLastNodes(
  { ports }: CommandContext,
  { directory, clusterId }: Caller,
): Promise<LastNodes | undefined> {
  const { data } = shape.safeParse(await readJson(ports.files, pathIn(directory), MAX_BYTES));
  return data?.clusterId === clusterId ? { timeMs: data.timeMs, nodes: data.nodes } : undefined;
}

/** The list as text: a title with its age, and a table without the health of the nodes, which is not known. */
export function renderLastNodes({ timeMs, nodes }: LastNodes, nowMs: number): string {
  const rows = nodes.map(({ name, roles, address }) => [
    printable(name),
    printable(roleNames(roles).join(',')) || '<none>',
    printable(address) || '<none>',
  ]);
  const age = formatDuration(Math.max(0, nowMs - timeMs));
  return `Nodes when a curator last listed them, ${age} ago:\n${formatTable(['NAME', 'ROLES', 'ADDRESS'], rows)}`;
}

function pathIn(directory: string): string {
  return join(directory, 'nodes.json');
}
