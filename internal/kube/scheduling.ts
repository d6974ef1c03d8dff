import { z } from 'zod';
import { describeShape } from '../errors/index.ts';
import { type KubeClient, KubeError } from './client/index.ts';

/**
 * Annotation with the actor that cordoned a node. Without this annotation, an operator cordoned it, and no
 * command uncordons the node automatically.
 */
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

/** Whether pods may be scheduled on a node. */
interface NodeScheduling {
  readonly isSchedulable: boolean;
  /** The `cordonedBy` of `setSchedulable`; undefined without the annotation. */
  readonly cordonedBy: string | undefined;
  /** Whether the control-plane taint keeps ordinary pods off the node. */
  readonly hasControlPlaneTaint: boolean;
}

/** Reads what keeps new pods off a node: its cordon and its taints. @throws KubeError `kube-not-found` */
export async function readScheduling(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<NodeScheduling> {
  const parsed = nodeObject.safeParse(await client.getJson(pathOf(nodeName), signal));
  if (!parsed.success)
    throw new KubeError('kube-failed', `reading node ${nodeName}: ${describeShape(parsed.error)}`);
  const { metadata, spec } = parsed.data;
  return {
    isSchedulable: !spec.unschedulable,
    cordonedBy: metadata.annotations[CORDONED_BY],
    hasControlPlaneTaint: spec.taints.some(
      ({ key, effect }) => key === 'node-role.kubernetes.io/control-plane' && effect === 'NoSchedule',
    ),
  };
}

/** Options of `setSchedulable`. */
export interface SchedulableOptions {
  readonly signal: AbortSignal;
  /** The actor that cordons, so that it can recognize its own cordon later. */
  readonly cordonedBy?: string;
}

/** Cordons or uncordons a node. @throws KubeError */
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
