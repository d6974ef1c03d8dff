import { formatDuration } from '../../internal/clock/index.ts';
import { NodeHealth, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { certificateLines } from './certificate-lines.ts';
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
  const problems = machineProblems(view);
  const statusMs = node.status === undefined ? undefined : Number(node.statusUpdatedMs);
  const isOld = isStatusOld(node);
  // A node reports a status when something has changed, so that of a silent node may be older than its silence.
  const asOf = isOld ? `, as last reported ${formatDuration(nowMs - Number(node.statusUpdatedMs))} ago` : '';
  context.host.result(
    {
      ...view,
      labels: node.labels,
      taints: taintViews(node.taints),
      statusMs,
      isStatusOld: isOld,
      controlPlane,
      runnables,
    },
    () =>
      [
        `Node ${view.name}`,
        ...facts(node, view, nowMs).map(([key, value]) => `  ${key.padEnd(12)}${value}`),
        ...(controlPlane.length === 0 ? [] : [`Kubernetes control plane${asOf}`]),
        ...controlPlane.map((part) => `  ${componentText(part, { nowMs, isOld })}`),
        ...(problems.length === 0 ? [] : [`Problems of the machine${asOf}`]),
        ...problems.map((each) => `  ${each}`),
        ...(certificates.length === 0 ? [] : [`Certificates${asOf}`]),
        ...certificateLines(certificates, { nowMs, isWide: context.host.isWide }).map((line) => `  ${line}`),
        `Components${asOf}`,
        ...(runnables.length === 0
          ? ['  not reported yet']
          : renderTree(runnables, isOld ? Number(node.statusUpdatedMs) : nowMs)),
      ].join('\n'),
  );
}

/** What is wrong on the machine of the node, one sentence for each problem. */
function machineProblems({ machine }: NodeView): readonly string[] {
  const { services = [], problems = [] } = machine ?? {};
  return [...services.map(({ name, why }) => `${name} ${why}`), ...problems.map(({ cause }) => cause)];
}

function facts(node: Node, view: NodeView, nowMs: number): readonly (readonly [string, string])[] {
  const changed =
    node.status === undefined ? 'never' : `${formatDuration(nowMs - Number(node.statusUpdatedMs))} ago`;
  return [
    ['id', view.id],
    ['state', `${view.state}, ${healthText(view, nowMs)}`],
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

/** Whether nothing is known about the node since its last status: it is silent or no member any more. */
function isStatusOld({ health, status }: Node): boolean {
  return status !== undefined && health !== NodeHealth.HEALTHY;
}

function healthText({ health, silentSinceMs }: NodeView, nowMs: number): string {
  if (health !== 'silent') return health;
  const since = silentSinceMs === undefined ? '' : ` for at least ${formatDuration(nowMs - silentSinceMs)}`;
  return `${health}: no heartbeat of its agent${since}`;
}

/** The state of a component, without its age if the state is old. */
function componentText(
  { name, isReady, sinceMs, why }: ComponentView,
  { nowMs, isOld }: { readonly nowMs: number; readonly isOld: boolean },
): string {
  const age = isOld ? '' : ` for ${formatDuration(nowMs - (sinceMs ?? nowMs))}`;
  const state = isReady ? `ready${age}` : `not ready${age}: ${why}`;
  return `${name.padEnd(25)}${isOld ? 'was ' : ''}${state}`;
}
