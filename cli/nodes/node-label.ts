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
  context.host.result({ node: name, labels }, () =>
    [`Labels of node ${name}:`, ...Object.entries(labels).map(([key, value]) => `  ${key}=${value}`)].join(
      '\n',
    ),
  );
}
