import { create } from '@bufbuild/protobuf';
import { join } from 'node:path';
import { z } from 'zod';
import { CodedError } from '../../../internal/errors/index.ts';
import { readJson } from '../../../internal/file/index.ts';
import { NODE_ID } from '../../../internal/pki/index.ts';
import { NodeSchema, NodeState, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { readCaller, findNode, type NodeView } from '../../cluster/index.ts';
import { removedNodeId } from './readmit.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_KEPT = 100;

const removal = z.strictObject({
  clusterId: z.string(),
  nodeId: z.string(),
  name: z.string(),
  /** The owner's order to reset: `sent` before the call, `taken` once the machine has it on disk. */
  order: z.enum(['none', 'sent', 'taken']),
  /** Whether all checks of the removal have passed. Later commands for this name then mean another node. */
  isProved: z.boolean(),
});
const shape = z.strictObject({ version: z.literal(1), nodes: z.array(removal) });

/**
 * A node that `cluster node remove` or `reset` is removing, in leaving.json of the workspace. A second run continues from it:
 * once the records are deleted or the machine is reset, nothing else knows what the first run has done.
 */
export type PendingRemoval = Omit<z.infer<typeof removal>, 'clusterId' | 'isProved'>;

/** The node that a command is to remove. */
export interface RemovalTarget {
  /**
   * The record of the node. If the record is already deleted, this has only name and ID, with state
   * UNSPECIFIED.
   */
  readonly node: Node;
  /** The progress of an interrupted run; undefined if there was none. */
  readonly earlierRun: PendingRemoval | undefined;
}

/**
 * Finds the node to remove by name or ID. If an earlier run was interrupted, returns the node of that run,
 * even if another machine has its name by now.
 * @throws RemoteError `curator-node-unknown`
 */
export async function findRemovalTarget(context: CommandContext, name: string): Promise<RemovalTarget> {
  const { nodes } = await readAll(context);
  const own = nodes.filter((each) => each.nodeId === name || each.name === name);
  const open = own.findLast(({ isProved }) => !isProved);
  const found = await nodeIfKnown(context, open?.nodeId ?? name);
  if (found !== undefined) return { node: found, earlierRun: open };
  const before = open ?? own.at(-1); // without an open removal, a finished one: its checks can be repeated
  if (before === undefined && !NODE_ID.test(name)) {
    const nodeId = await removedNodeId(context, name); // removed by another operator
    if (nodeId === undefined) return { node: await findNode(context, name), earlierRun: before };
    return { node: create(NodeSchema, { nodeId, name }), earlierRun: before };
  }
  const nodeId = before?.nodeId ?? name;
  // If another node has joined under this name since, the Kubernetes Node of that name is not the removed
  // node's.
  const isNameFree = before !== undefined && (await nodeIfKnown(context, before.name)) === undefined;
  return {
    node: create(NodeSchema, { nodeId, name: isNameFree ? before.name : nodeId }),
    earlierRun: before,
  };
}

/** Saves the progress of a removal. Call it before the step that it records. */
export async function savePendingRemoval(
  context: CommandContext,
  { nodeId, name, order }: PendingRemoval,
): Promise<void> {
  const { nodes, clusterId, path } = await readAll(context);
  const others = nodes.filter((each) => each.nodeId !== nodeId).slice(-MAX_KEPT);
  await write(context, path, [...others, { clusterId, nodeId, name, order, isProved: false }]);
}

/** Records that all checks of the removal have passed. */
export async function completePendingRemoval(
  context: CommandContext,
  { nodeId }: Pick<Node, 'nodeId'>,
): Promise<void> {
  const { nodes, path } = await readAll(context);
  if (!nodes.some((each) => each.nodeId === nodeId && !each.isProved)) return;
  const closed = nodes.map((each) => (each.nodeId === nodeId ? { ...each, isProved: true } : each));
  await write(context, path, closed);
}

/**
 * The removals and resets of this workspace that were interrupted, for `cluster status`: the node has lost its roles or its record, and
 * nothing else says why.
 */
export async function unfinishedRemovals(
  context: CommandContext,
  nodes: readonly Pick<NodeView, 'id' | 'roles'>[],
): Promise<readonly string[]> {
  const { nodes: pending } = await readAll(context);
  return pending.flatMap(({ nodeId, name, order, isProved }) => {
    const hasRoles = nodes.some(({ id, roles }) => id === nodeId && roles.length > 0);
    if (isProved || (order === 'none' && hasRoles)) return []; // with its roles, it is still a usable node
    const commands =
      order === 'none'
        ? `\`cluster node remove ${name}\` or \`cluster node reset ${name}\``
        : `\`cluster node reset ${name}\``;
    return [`taking node ${name} out of the cluster was interrupted: run ${commands} again`];
  });
}

/** Whether the record of a node from `findRemovalTarget` is deleted. */
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
  const { directory, clusterId } = await readCaller(context);
  const path = join(directory, 'leaving.json');
  // A damaged file counts as empty: the command can be run again with the ID of the node and then does the
  // same.
  const { data } = shape.safeParse(await readJson(context.ports.files, path, MAX_BYTES));
  const nodes = (data?.nodes ?? []).filter((each) => each.clusterId === clusterId);
  return { path, clusterId, nodes };
}

async function write(
  { ports }: CommandContext,
  path: string,
  nodes: z.infer<typeof shape>['nodes'],
): Promise<void> {
  await ports.files.makeDirectory(join(path, '..'));
  await ports.files.writeAtomic(path, `${JSON.stringify({ version: 1, nodes })}\n`, { mode: 0o600 });
}
