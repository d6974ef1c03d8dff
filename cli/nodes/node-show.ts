import { formatDuration, formatExpiry } from '../../internal/clock/index.ts';
import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { controlPlaneComponents, type ComponentView } from './roles/control-plane-components.ts';
import { renderTree, runnableViews } from './runnable-tree.ts';
import { taintText, taintViews } from './node-taint.ts';
import { describeDisk, nodeViewFrom, findNode, type NodeView } from '../cluster/index.ts';

/** `cluster node show`: a node's record and status, with the tree of its agent's runnables. */
export async function runNodeShow(context: CommandContext, name: string): Promise<void> {
  const node = await findNode(context, name);
  const nowMs = context.ports.clock.nowMs();
  const view = nodeViewFrom(node);
  const runnables = runnableViews(node.status?.runnables ?? [], nowMs);
  const { certificates } = view;
  const controlPlane = controlPlaneComponents(node).filter(({ isKnown }) => isKnown);
  const statusMs = node.status === undefined ? undefined : Number(node.statusUpdatedMs);
  const width = 2 + Math.max(...certificates.map((each) => each.name.length), 0);
  context.host.result(
    { ...view, labels: node.labels, taints: taintViews(node.taints), statusMs, controlPlane, runnables },
    () =>
      [
        `Node ${view.name}`,
        ...facts(node, view, nowMs).map(([key, value]) => `  ${key.padEnd(12)}${value}`),
        ...(controlPlane.length === 0 ? [] : ['Kubernetes control plane']),
        ...controlPlane.map((part) => `  ${componentText(part, nowMs)}`),
        ...(certificates.length === 0 ? [] : ['Certificates']),
        ...certificates.map((each) => `  ${each.name.padEnd(width)}${formatExpiry(each.notAfterMs, nowMs)}`),
        'Components',
        ...(runnables.length === 0 ? ['  not reported yet'] : renderTree(runnables, nowMs)),
      ].join('\n'),
  );
}

function facts(node: Node, view: NodeView, nowMs: number): readonly (readonly [string, string])[] {
  const changed =
    node.status === undefined ? 'never' : `${formatDuration(nowMs - Number(node.statusUpdatedMs))} ago`;
  return [
    ['id', view.id],
    ['state', `${view.state}, ${view.health}`],
    ['roles', view.roles.join(', ') || '<none>'],
    [
      'labels',
      Object.entries(node.labels)
        .map(([key, value]) => printable(`${key}=${value}`))
        .join(', ') || '<none>',
    ],
    ['taints', taintViews(node.taints).map(taintText).join(', ') || '<none>'],
    ['address', view.address || 'unknown'],
    ['agent', view.agentVersion || 'unknown'],
    ['kubernetes', view.kubernetesVersion || 'not running'],
    ['boot', printable(node.status?.bootId ?? '') || 'unknown'],
    ['disk', describeDisk(view) ?? 'unknown'],
    ...(view.oldDiskMs === undefined
      ? []
      : [['', `found to be an old copy ${formatDuration(nowMs - view.oldDiskMs)} ago`] as const]),
    ['status', `changed ${changed}`],
    ...(view.lastError === undefined ? [] : [['last error', view.lastError] as const]),
  ];
}

function componentText({ name, isReady, sinceMs, why }: ComponentView, nowMs: number): string {
  const age = formatDuration(nowMs - (sinceMs ?? nowMs));
  return `${name.padEnd(25)}${isReady ? `ready for ${age}` : `not ready for ${age}: ${why}`}`;
}
