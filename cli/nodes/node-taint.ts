import { listPodsOn, toleratesTaint } from '../../internal/kube/index.ts';
import { callCurator, findNode, newMutation, withKubernetes } from '../cluster/index.ts';
import type { Taint } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { lossesAmong, nameOf } from './drain.ts';
import { parseTaintChanges } from './taint-changes.ts';

/**
 * `cluster node taint`: sets and removes taints of a node. Asks if a taint with the effect NoExecute evicts pods; with `--yes` it
 * does not list them, so it needs no Kubernetes API.
 */
export async function runTaint(
  context: CommandContext,
  name: string,
  words: readonly string[],
  { dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean },
): Promise<void> {
  const { set, remove } = parseTaintChanges(words);
  const { nodeId, name: nodeName } = await findNode(context, name);
  const losses = yes && !dryRun ? [] : await lossesOfTaints(context, nodeName, set);
  if (dryRun)
    return context.host.result({ node: name, dryRun, set, remove, losses }, () =>
      [
        `Taints of node ${name} would be changed. Nothing was changed.`,
        ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
      ].join('\n'),
    );
  await confirmLoss(context, { doing: `tainting node ${name}`, losses, yes });
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

/** The pods on the node that its new taints evict, and what they lose. */
async function lossesOfTaints(
  context: CommandContext,
  node: string,
  set: readonly TaintView[],
): Promise<readonly string[]> {
  const evicting = set.filter(({ effect }) => effect === 'NoExecute');
  if (evicting.length === 0) return [];
  const pods = await withKubernetes(context, (client) => listPodsOn(client, node, context.signal));
  // A static pod tolerates every taint with this effect.
  const evicted = pods.filter(
    ({ kind, tolerations }) =>
      kind !== 'mirror' && !evicting.every((taint) => toleratesTaint(tolerations, taint)),
  );
  if (evicted.length === 0) return [];
  const names = evicted.map(nameOf).join(', ');
  return [
    `pods that do not tolerate ${evicting.map(taintText).join(', ')} are evicted, without regard to disruption budgets: ${names}`,
    ...lossesAmong(evicted),
  ];
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
