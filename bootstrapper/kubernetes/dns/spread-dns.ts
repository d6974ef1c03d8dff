import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { kubectl } from '../kubectl.ts';

const NAMESPACE = 'kube-system';
const DEPLOYMENT = 'coredns';

/**
 * With this key a pod keeps away from the pods of its own generation of the deployment only. Without it the old pods
 * count in a restart, and both new pods go to the node that has none of them.
 */
const GENERATION = 'pod-template-hash';

const taintShape = z.object({ key: z.string(), effect: z.string() });
const affinityTermShape = z.looseObject({ matchLabelKeys: z.array(z.string()).default([]) });
const deploymentShape = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.object({
    replicas: z.number().default(1),
    template: z.object({
      spec: z.object({
        affinity: z
          .looseObject({
            podAntiAffinity: z
              .looseObject({
                preferredDuringSchedulingIgnoredDuringExecution: z
                  .array(z.looseObject({ podAffinityTerm: affinityTermShape }))
                  .default([]),
              })
              .prefault({}),
          })
          .prefault({}),
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
 * Kubernetes moves no running pod. The pods restart one after the other when a second node that can run them is ready.
 * Only the rule that kubeadm writes is changed: with other rules, or with one replica, the deployment is as its operator
 * wants it. The rule stays a preference: while only one node can run the pods, both run there.
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
  const spread = spreadRule(deployment);
  if (spread === undefined) return 'unchanged';
  const listed = await kubectl(commands, ['get', 'nodes', '--output', 'json'], signal);
  const { items } = nodesShape.parse(JSON.parse(listed));
  if (items.filter((node) => canRun(node, deployment)).length < 2) return 'waiting';
  const podAntiAffinity = { preferredDuringSchedulingIgnoredDuringExecution: [spread] };
  const patch = {
    // Another control plane may do the same at this moment, or an operator may change the deployment.
    metadata: { resourceVersion: deployment.metadata.resourceVersion },
    spec: { template: { spec: { affinity: { podAntiAffinity } } } },
  };
  await kubectl(commands, ['patch', ...target, '--type', 'merge', '--patch', JSON.stringify(patch)], signal);
  return 'spread';
}

/** The rule of kubeadm with the key of the generation; undefined if the deployment is not to be changed. */
function spreadRule({ spec }: Deployment): object | undefined {
  const { affinity, topologySpreadConstraints } = spec.template.spec;
  const [rule, ...others] = affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution;
  const isKubeadms =
    rule?.podAffinityTerm.matchLabelKeys.length === 0 &&
    others.length + topologySpreadConstraints.length === 0;
  if (spec.replicas < 2 || !isKubeadms) return undefined;
  return { ...rule, podAffinityTerm: { ...rule.podAffinityTerm, matchLabelKeys: [GENERATION] } };
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
