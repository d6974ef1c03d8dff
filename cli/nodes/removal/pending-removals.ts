import { create } from '@bufbuild/protobuf';
import { join } from 'node:path';
import { z } from 'zod';
import { CodedError } from '../../../internal/errors/index.ts';
import { NodeSchema, NodeState, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { readCaller, findNode } from '../../cluster/index.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_KEPT = 100;
/** `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;

const leaving = z.strictObject({
  clusterId: z.string(),
  nodeId: z.string(),
  name: z.string(),
  /** The owner's order to reset: `sent` before it is handed over, `taken` when the machine has it on its disk. */
  order: z.enum(['none', 'sent', 'taken']),
  /** Whether the command has come to its end: another node of this name is another one then. */
  isProved: z.boolean(),
});
const shape = z.strictObject({ version: z.literal(1), nodes: z.array(leaving) });

/**
 * A node that a command takes out of the cluster, from before the machine or the records change for good until the proof that
 * it is gone. Afterwards neither the cluster nor the machine could tell an interrupted command what it was about.
 */
export type PendingRemoval = Omit<z.infer<typeof leaving>, 'clusterId' | 'isProved'>;

export interface RemovalTarget {
  /** As it is on record; with state UNSPECIFIED when its record is gone already. */
  readonly node: Node;
  /** What an earlier run that was interrupted has done; undefined when there was none. */
  readonly earlierRun: PendingRemoval | undefined;
}

/**
 * The node that is to leave, by name or id. After an interruption it is the same one as before, also when another machine
 * has its name by now. @throws RemoteError `curator-node-unknown`
 */
export async function findRemovalTarget(context: CommandContext, name: string): Promise<RemovalTarget> {
  const { nodes } = await readAll(context);
  const own = nodes.filter((each) => each.nodeId === name || each.name === name);
  const open = own.findLast(({ isProved }) => !isProved);
  const found = await nodeIfKnown(context, open?.nodeId ?? name);
  if (found !== undefined) return { node: found, earlierRun: open };
  const before = open ?? own.at(-1); // of one that has left, the proof can be had again
  if (before === undefined && !NODE_ID.test(name))
    return { node: await findNode(context, name), earlierRun: before };
  const nodeId = before?.nodeId ?? name;
  // Whatever Kubernetes knows by the name of another node that has joined since is not of this one.
  const isNameFree = before !== undefined && (await nodeIfKnown(context, before.name)) === undefined;
  return {
    node: create(NodeSchema, { nodeId, name: isNameFree ? before.name : nodeId }),
    earlierRun: before,
  };
}

/** Written down before the step that it is about. */
export async function savePendingRemoval(
  context: CommandContext,
  { nodeId, name, order }: PendingRemoval,
): Promise<void> {
  const { nodes, clusterId, path } = await readAll(context);
  const others = nodes.filter((each) => each.nodeId !== nodeId).slice(-MAX_KEPT);
  await write(context, path, [...others, { clusterId, nodeId, name, order, isProved: false }]);
}

/** The proof is there. */
export async function completePendingRemoval(
  context: CommandContext,
  { nodeId }: Pick<Node, 'nodeId'>,
): Promise<void> {
  const { nodes, path } = await readAll(context);
  if (!nodes.some((each) => each.nodeId === nodeId && !each.isProved)) return;
  const closed = nodes.map((each) => (each.nodeId === nodeId ? { ...each, isProved: true } : each));
  await write(context, path, closed);
}

/** Whether its record has been deleted. */
export function isRecordDeleted({ state }: Pick<Node, 'state'>): boolean {
  return state === NodeState.UNSPECIFIED;
}

async function nodeIfKnown(context: CommandContext, name: string): Promise<Node | undefined> {
  try {
    return await findNode(context, name);
  } catch (error) {
    if (error instanceof CodedError && error.code === 'curator-node-unknown') return undefined;
    throw error;
  }
}

async function readAll(context: CommandContext) {
  const { directory: folder, clusterId } = await readCaller(context);
  const path = join(folder, 'leaving.json');
  const bytes = await context.ports.files.read(path, MAX_BYTES);
  // Damaged, it is as if there were none: the node's id leads to the same end.
  const parsed = bytes === undefined ? undefined : shape.safeParse(jsonFrom(bytes));
  const nodes = parsed?.success === true ? parsed.data.nodes : [];
  return { path, clusterId, nodes: nodes.filter((each) => each.clusterId === clusterId) };
}

async function write(
  { ports }: CommandContext,
  path: string,
  nodes: z.infer<typeof shape>['nodes'],
): Promise<void> {
  await ports.files.makeDirectory(join(path, '..'));
  await ports.files.writeAtomic(path, `${JSON.stringify({ version: 1, nodes })}\n`, { mode: 0o600 });
}

function jsonFrom(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
}
