import { z } from 'zod';
import type { KubeClient } from './client.ts';
import { KubeError } from './errors.ts';

/** Who has cordoned a node. Without it somebody wanted it cordoned, and nobody else ends that. */
const CORDONED_BY = 'cluster/cordoned-by';

const nodeObject = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()).default({}) }),
  spec: z
    .object({
      unschedulable: z.boolean().default(false),
      taints: z.array(z.object({ key: z.string(), effect: z.string() })).default([]),
    })
    .prefault({}),
});

/** What decides which pods may be placed on a node. */
export interface NodeScheduling {
  readonly isSchedulable: boolean;
  /** What has cordoned it, where it says so (`setSchedulable`). */
  readonly cordonedBy: string | undefined;
  /** Whether the mark of a control plane keeps ordinary pods off. */
  readonly hasControlPlaneTaint: boolean;
}

/** @throws KubeError `kube-not-found` */
export async function readScheduling(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<NodeScheduling> {
  const parsed = nodeObject.safeParse(await client.getJson(pathOf(nodeName), signal));
  if (!parsed.success)
    throw new KubeError('kube-failed', `looking at node ${nodeName}: ${z.prettifyError(parsed.error)}`);
  const { metadata, spec } = parsed.data;
  return {
    isSchedulable: !spec.unschedulable,
    cordonedBy: metadata.annotations[CORDONED_BY],
    hasControlPlaneTaint: spec.taints.some(
      ({ key, effect }) => key === 'node-role.kubernetes.io/control-plane' && effect === 'NoSchedule',
    ),
  };
}

export interface SchedulableOptions {
  readonly signal: AbortSignal;
  /** Who cordons, for who is to end it later. */
  readonly cordonedBy?: string;
}

/** Whether new pods may be placed on the node. */
export async function setSchedulable(
  client: KubeClient,
  node: { readonly name: string; readonly isSchedulable: boolean },
  { signal, cordonedBy }: SchedulableOptions,
): Promise<void> {
  const { name, isSchedulable } = node;
  const annotations = { [CORDONED_BY]: isSchedulable ? null : (cordonedBy ?? null) };
  await client.write(
    {
      method: 'PATCH',
      path: pathOf(name),
      contentType: 'application/merge-patch+json',
      body: { metadata: { annotations }, spec: { unschedulable: isSchedulable ? null : true } },
    },
    signal,
  );
}

function pathOf(nodeName: string): string {
  return `/api/v1/nodes/${encodeURIComponent(nodeName)}`;
}
