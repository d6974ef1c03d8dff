import { callCurator, findNode, newMutation } from '../cluster/index.ts';
import type { Taint } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { parseTaintChanges } from './taint-changes.ts';

/** `cluster node taint`: sets and removes taints of a node. */
export async function runTaint(
  context: CommandContext,
  name: string,
  words: readonly string[],
): Promise<void> {
  const { set, remove } = parseTaintChanges(words);
  const { nodeId } = await findNode(context, name);
  const mutation = newMutation();
  const { node } = await callCurator(context, ({ curator }) =>
    curator.updateNodeTaints({ nodeId, set: [...set], remove: [...remove], mutation }),
  );
  const taints = taintViews(node?.taints ?? []);
  context.host.result({ node: name, taints }, () =>
    taints.length === 0
      ? `Taints of node ${name}: none`
      : [`Taints of node ${name}:`, ...taints.map((taint) => `  ${taintText(taint)}`)].join('\n'),
  );
}

/** A taint as `-o json` shows it. */
interface TaintView {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

/** Taints with printable texts. */
export function taintViews(taints: readonly Taint[]): readonly TaintView[] {
  return taints.map(({ key, value, effect }) => ({
    key: printable(key),
    value: printable(value),
    effect: printable(effect),
  }));
}

/** The taint as kubectl writes it. */
export function taintText({ key, value, effect }: TaintView): string {
  return `${key}${value === '' ? '' : `=${value}`}:${effect}`;
}
