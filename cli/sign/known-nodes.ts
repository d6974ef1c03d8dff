import { join } from 'node:path';
import { z } from 'zod';
import { readText } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { VERSION } from '../../internal/versions/index.ts';
import { readCaller } from '../cluster/index.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';

const pinShape = z.looseObject({
  clusterId: z.string(),
  nodeId: z.string().optional(),
  identity: z.string().optional(),
});

/**
 * Node IDs, each derived from a node key, that this workspace has seen without relying on a curator: the first node at the init, and
 * nodes that an owner approved or `cluster verify` verified.
 */
export async function readKnownNodeIds(context: CommandContext): Promise<ReadonlySet<string>> {
  return new Set((await readKnownNodes(context)).keys());
}

/** Like `readKnownNodeIds`, with the machine of each node; undefined where the workspace does not know it. */
export async function readKnownNodes(
  context: CommandContext,
): Promise<ReadonlyMap<string, string | undefined>> {
  const { files } = context.ports;
  const { clusterId, directory } = await readCaller(context);
  const { machines } = layoutOf(directory);
  const names = (await files.list(machines)).filter((name) => name.endsWith('.json'));
  const pinned = await Promise.all(names.map((name) => readText(files, join(machines, name))));
  const known = pinned.flatMap((text) => {
    const pin = pinShape.safeParse(jsonFrom(text));
    return pin.success && pin.data.clusterId === clusterId
      ? [[pin.data.nodeId ?? '', pin.data.identity] as const]
      : [];
  });
  const layout = layoutOf(context.paths.workspace);
  const { value } = await StateFile.read(files, layout, { programVersion: VERSION });
  const { result } = value.init ?? {};
  const first = result?.clusterId === clusterId ? [[result.nodeId, undefined] as const] : [];
  return new Map([...first, ...known]);
}

/** undefined for a damaged pin, which `cluster verify` reports; the node then counts as unknown. */
function jsonFrom(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
