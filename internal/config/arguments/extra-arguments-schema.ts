import { z } from 'zod';
import { addProblem } from '../errors.ts';

const MAX_SECONDS = 86_400;
/** The ports below this one belong to Kubernetes and to the programs of this project. */
const FIRST_NODE_PORT = 11_000;

const seconds = (about: string) => z.int().min(1).max(MAX_SECONDS).optional().describe(about);
const count = (max: number, about: string) => z.int().min(1).max(max).optional().describe(about);
const duration = (about: string) =>
  z
    .string()
    .max(16)
    .regex(/^([1-9][0-9]{0,5}h)?([1-9][0-9]{0,5}m)?([1-9][0-9]{0,5}s)?$/, 'a duration like “90s” or “1h30m”')
    .refine((text) => text !== '', 'a duration like “90s” or “1h30m”')
    .optional()
    .describe(about);

/** Levels of 6 and above write requests into the log, levels of 8 and above also the bodies of requests. */
const verbosity = z.int().min(0).max(5).optional().describe('Verbosity of the log.');

const apiServer = z.strictObject({
  'default-not-ready-toleration-seconds': seconds(
    'How long pods stay on a node that reports itself as not ready.',
  ),
  'default-unreachable-toleration-seconds': seconds('How long pods stay on a node that sends no heartbeats.'),
  'delete-collection-workers': count(
    64,
    'Number of workers that delete objects for one request that deletes a collection.',
  ),
  'event-ttl': duration('How long the API server keeps events.'),
  'goaway-chance': z
    .number()
    .min(0)
    .max(0.02)
    .optional()
    .describe('Share of the requests after which the API server makes the client open a new connection.'),
  'max-mutating-requests-inflight': count(
    10_000,
    'Maximum number of requests in progress that change objects.',
  ),
  'max-requests-inflight': count(10_000, 'Maximum number of requests in progress that only read.'),
  'min-request-timeout': seconds('Minimum time for which the API server keeps a watch open.'),
  'runtime-config': z
    .string()
    .max(1024)
    .regex(
      /^[a-z0-9.-]+\/[a-z0-9]+=true(,[a-z0-9.-]+\/[a-z0-9]+=true)*$/,
      'API versions, each with “=true” and separated by commas, like “resource.k8s.io/v1beta2=true”',
    )
    .optional()
    .describe('Additional API versions to enable. No API version can be disabled.'),
  'service-node-port-range': z
    .string()
    .max(11)
    .refine(isPortRange, 'two ports from 11000 on, like “30000-32767”')
    .optional()
    .describe('Range of ports for Services of type NodePort.'),
  v: verbosity,
});

const controllerManager = z.strictObject({
  'horizontal-pod-autoscaler-downscale-stabilization': duration(
    'How long the horizontal pod autoscaler waits before it removes pods.',
  ),
  'horizontal-pod-autoscaler-sync-period': duration(
    'How often the horizontal pod autoscaler adjusts the number of pods.',
  ),
  'node-cidr-mask-size': z
    .int()
    .min(16)
    .max(28)
    .optional()
    .describe(
      'Prefix length of the range of pod addresses that each node gets; default: 24. Only in clusters without IPv6.',
    ),
  'node-cidr-mask-size-ipv4': z
    .int()
    .min(16)
    .max(28)
    .optional()
    .describe('Prefix length of the range of IPv4 pod addresses that each node gets; default: 24.'),
  'node-cidr-mask-size-ipv6': z
    .int()
    .min(32)
    .max(124)
    .optional()
    .describe('Prefix length of the range of IPv6 pod addresses that each node gets; default: 64.'),
  'node-monitor-grace-period': duration(
    'How long a node may send no heartbeats before it counts as not ready.',
  ),
  v: verbosity,
});

const scheduler = z.strictObject({ v: verbosity });

const quantity = z
  .string()
  .max(20)
  .regex(/^[1-9][0-9]*(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/, 'a quantity like “500m” or “1Gi”');
const reserved = (about: string) =>
  z
    .strictObject({
      cpu: quantity.optional(),
      memory: quantity.optional(),
      'ephemeral-storage': quantity.optional(),
      pid: quantity.optional(),
    })
    .optional()
    .describe(about);

const kubelet = z
  .strictObject({
    allowedUnsafeSysctls: z
      .array(
        z
          .string()
          .max(128)
          .regex(
            /^net\.[a-z0-9_.]+\*?$/,
            'a kernel parameter of a network namespace, like “net.core.somaxconn”',
          ),
      )
      .max(64)
      .optional()
      .describe('Kernel parameters that pods may set in their own network namespace.'),
    containerLogMaxFiles: z
      .int()
      .min(2)
      .max(100)
      .optional()
      .describe('Maximum number of log files that a node keeps for each container.'),
    containerLogMaxSize: quantity.optional().describe('Size at which a log file of a container is rotated.'),
    cpuManagerPolicy: z
      .enum(['none', 'static'])
      .optional()
      .describe(
        '“static”: a container that requests whole CPUs gets these CPUs for itself. “static” requires `cpu` in kubeReserved or systemReserved.',
      ),
    imageMinimumGCAge: duration('Minimum age of an unused image before the kubelet deletes it.'),
    kubeReserved: reserved('Resources that pods do not get because Kubernetes needs them.'),
    maxParallelImagePulls: count(
      32,
      'Maximum number of images that a node pulls at the same time; requires `serializeImagePulls: false`.',
    ),
    maxPods: count(1000, 'Maximum number of pods on a node; default: 110.'),
    nodeStatusUpdateFrequency: duration('How often the kubelet checks the status of its node.'),
    registryBurst: count(1000, 'Maximum number of image pulls in a short burst.'),
    registryPullQPS: count(1000, 'Maximum number of image pulls per second.'),
    serializeImagePulls: z.boolean().optional().describe('Whether a node pulls only one image at a time.'),
    systemReserved: reserved('Resources that pods do not get because the operating system needs them.'),
    topologyManagerPolicy: z
      .enum(['none', 'best-effort', 'restricted', 'single-numa-node'])
      .optional()
      .describe('How strictly the CPUs and devices of a container must be on the same NUMA node.'),
  })
  .superRefine((own, context) => {
    const reservesCpu = own.kubeReserved?.cpu !== undefined || own.systemReserved?.cpu !== undefined;
    if (own.cpuManagerPolicy === 'static' && !reservesCpu)
      addProblem(context, ['cpuManagerPolicy'], '“none”, unless kubeReserved or systemReserved has `cpu`');
    if (own.maxParallelImagePulls !== undefined && own.serializeImagePulls !== false)
      addProblem(context, ['maxParallelImagePulls'], 'left out, unless `serializeImagePulls` is false');
  });

/**
 * `extraArguments:` of `cluster.yaml`: arguments of the control plane and fields of the KubeletConfiguration, by the
 * names that they have in Kubernetes. The schema lists the allowed arguments. It has no argument that changes
 * permissions, the keys and files that a program reads, the addresses on which a program listens, or a value that an
 * agent sets. It has no feature gates, because a feature gate can turn off the webhook that refuses removed nodes.
 * Without extra arguments, the object is empty. Immutable after the init.
 */
export const extraArgumentsSchema = z.strictObject({
  apiServer: apiServer.optional().describe('Arguments of kube-apiserver.'),
  controllerManager: controllerManager.optional().describe('Arguments of kube-controller-manager.'),
  scheduler: scheduler.optional().describe('Arguments of kube-scheduler.'),
  kubelet: kubelet.optional().describe('Fields of the KubeletConfiguration.'),
});

/** The parsed section. */
export type ExtraArguments = z.output<typeof extraArgumentsSchema>;

function isPortRange(text: string): boolean {
  const [from = 0, to = 0] = /^([0-9]{5})-([0-9]{5})$/.exec(text)?.slice(1).map(Number) ?? [];
  return from >= FIRST_NODE_PORT && from <= to && to <= 65_535;
}
