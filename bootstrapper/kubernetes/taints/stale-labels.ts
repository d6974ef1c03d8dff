import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { CONTROL_PLANE_LABELS, CONTROL_PLANE_TAINT } from './control-plane-taint.ts';
import { kubectl } from '../kubectl.ts';

const shape = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), resourceVersion: z.string() }),
      spec: z.object({ taints: z.array(z.looseObject({ key: z.string() })).default([]) }).prefault({}),
    }),
  ),
});

/** A node that has the control-plane label, at one resource version. */
export interface LabeledNode {
  readonly name: string;
  readonly resourceVersion: string;
  readonly taints: readonly Readonly<Record<string, unknown>>[];
}

/**
 * Lists the nodes that have the control-plane label. Needs admin.conf, which exists only on control planes.
 */
export async function listLabeledNodes(
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<readonly LabeledNode[]> {
  const args = ['get', 'nodes', '--selector', CONTROL_PLANE_LABELS[0], '--output', 'json'];
  const { items } = shape.parse(JSON.parse(await kubectl(commands, args, signal)));
  return items.map(({ metadata, spec }) => ({ ...metadata, taints: spec.taints }));
}

/**
 * Removes the label and the taint from a node that is no longer a control plane. Fails if the Node object has
 * changed since it was listed, because the node may have become a control plane again.
 */
export async function removeTaintAndLabels(
  commands: CommandRunner,
  { name, resourceVersion, taints }: LabeledNode,
  signal: AbortSignal,
): Promise<void> {
  const kept = taints.filter(({ key, effect }) => key !== CONTROL_PLANE_TAINT || effect !== 'NoSchedule');
  const patch = {
    metadata: {
      resourceVersion,
      labels: Object.fromEntries(CONTROL_PLANE_LABELS.map((label) => [label, null])),
    },
    spec: { taints: kept.length === 0 ? null : kept },
  };
  const args = ['patch', 'node', name, '--type', 'merge', '--patch', JSON.stringify(patch)];
  await kubectl(commands, args, signal);
}
