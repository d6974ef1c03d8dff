import type { CommandContext } from '../app/command.ts';
import { parseLabelChanges } from './roles/role-names.ts';
import { callCurator, newMutation, findNode } from '../cluster/index.ts';

/** `cluster node label`: sets and removes labels. */
export async function runLabel(
  context: CommandContext,
  name: string,
  words: readonly string[],
): Promise<void> {
  const { set, remove } = parseLabelChanges(words);
  const { nodeId } = await findNode(context, name);
  const mutation = newMutation();
  const { node } = await callCurator(context, ({ curator }) =>
    curator.updateNodeLabels({ nodeId, set: { ...set }, remove: [...remove], mutation }),
  );
  const labels = node?.labels ?? {};
  const lines = Object.entries(labels).map(([key, value]) => `  ${key}=${value}`);
  context.host.result({ node: name, labels }, () =>
    lines.length === 0 ? `Labels of node ${name}: none` : [`Labels of node ${name}:`, ...lines].join('\n'),
  );
}
