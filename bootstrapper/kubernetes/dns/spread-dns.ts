import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { kubectl } from '../kubectl.ts';

const NAMESPACE = 'kube-system';
const DEPLOYMENT = 'coredns';

/**
 * Prefers a node without a pod of the same generation of the deployment. Preferred only: on a cluster with one usable node,
 * and while the others are full, both pods run there.
 */
const SPREAD = {
  maxSkew: 1,
  topologyKey: 'kubernetes.io/hostname',
  whenUnsatisfiable: 'ScheduleAnyway',
  labelSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
  matchLabelKeys: ['pod-template-hash'],
};

const taintShape = z.object({ key: z.string(), effect: z.string() });
const deploymentShape = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.object({
    replicas: z.number().default(1),
    template: z.object({
      spec: z.object({
        topologySpreadConstraints: z.array(z.unknown()).default([]),
        tolerations: z
          .array(z.object({ key: z.string().optional(), effect: z.string().optional() }))
          .default([]),
      }),
    }),
  }),
});
const nodesShape = z.object({
  items: z.array(
    z.object({
      spec: z
        .object({ unschedulable: z.boolean().default(false), taints: z.array(taintShape).default([]) })
        .prefault({}),
      status: z.object({
        conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
      }),
    }),
  ),
});
type Deployment = z.output<typeof deploymentShape>;
type NodeObject = z.output<typeof nodesShape>['items'][number];

/**
 * Distributes the pods of CoreDNS over the nodes, once. kubeadm creates both of them while the cluster has one node, and
 * Kubernetes moves no running pod. The pods restart one after the other when a second node that can run them is ready. A
 * deployment with constraints of its own, or with one replica, is as its operator wants it.
 * @returns `waiting` while only one node can run the pods
 */
export async function spreadDns(
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<'unchanged' | 'waiting' | 'spread'> {
  const target = ['--namespace', NAMESPACE, 'deployment', DEPLOYMENT];
  const found = await kubectl(commands, ['get', ...target, '--ignore-not-found', '--output', 'json'], signal);
  if (found.trim() === '') return 'unchanged'; // the operators run another DNS server
  const deployment = deploymentShape.parse(JSON.parse(found));
  const { replicas, template } = deployment.spec;
  if (replicas < 2 || template.spec.topologySpreadConstraints.length > 0) return 'unchanged';
  const listed = await kubectl(commands, ['get', 'nodes', '--output', 'json'], signal);
  const { items } = nodesShape.parse(JSON.parse(listed));
  if (items.filter((node) => canRun(node, deployment)).length < 2) return 'waiting';
  const patch = {
    // Another control plane may do the same at this moment, or an operator may change the deployment.
    metadata: { resourceVersion: deployment.metadata.resourceVersion },
    spec: { template: { spec: { topologySpreadConstraints: [SPREAD] } } },
  };
  await kubectl(commands, ['patch', ...target, '--type', 'merge', '--patch', JSON.stringify(patch)], signal);
  return 'spread';
}

/** Whether the scheduler could place a pod of the deployment on this node now. */
function canRun({ spec, status }: NodeObject, deployment: Deployment): boolean {
  const { tolerations } = deployment.spec.template.spec;
  const isReady = status.conditions.some((each) => each.type === 'Ready' && each.status === 'True');
  const isTolerated = ({ key, effect }: z.output<typeof taintShape>): boolean =>
    effect === 'PreferNoSchedule' ||
    tolerations.some(
      (each) =>
        (each.key === undefined || each.key === key) && (each.effect === undefined || each.effect === effect),
    );
  return isReady && !spec.unschedulable && spec.taints.every(isTolerated);
}
