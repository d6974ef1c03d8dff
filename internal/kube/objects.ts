import { z } from 'zod';
import { printable } from '../printable/index.ts';
import { type KubeClient, KubeError } from './client/index.ts';

const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
});
const metadata = z.object({
  name: z.string(),
  namespace: z.string().default(''),
  creationTimestamp: z.string().default(''),
  labels: z.record(z.string(), z.string()).default({}),
});

const nodeSchema = z.object({
  metadata,
  spec: z.object({ unschedulable: z.boolean().default(false) }).prefault({}),
  status: z
    .object({
      conditions: z.array(condition).default([]),
      addresses: z.array(z.object({ type: z.string(), address: z.string() })).default([]),
      nodeInfo: z.object({ kubeletVersion: z.string().default('') }).prefault({}),
    })
    .prefault({}),
});

const containerStatus = z.object({
  name: z.string(),
  ready: z.boolean().default(false),
  restartCount: z.number().default(0),
  state: z
    .object({
      running: z.object({ startedAt: z.string().default('') }).optional(),
      waiting: z.object({ reason: z.string().default(''), message: z.string().default('') }).optional(),
      terminated: z
        .object({
          reason: z.string().default(''),
          exitCode: z.number().default(0),
          message: z.string().default(''),
        })
        .optional(),
    })
    .default({}),
});
const configMapVolume = z.object({ name: z.string().default('') }).optional();
const volume = z.object({
  configMap: configMapVolume,
  projected: z.object({ sources: z.array(z.object({ configMap: configMapVolume })).default([]) }).optional(),
});
const podSchema = z.object({
  metadata,
  spec: z.object({ nodeName: z.string().default(''), volumes: z.array(volume).default([]) }).prefault({}),
  status: z
    .object({
      phase: z.string().default(''),
      conditions: z.array(condition).default([]),
      initContainerStatuses: z.array(containerStatus).default([]),
      containerStatuses: z.array(containerStatus).default([]),
    })
    .prefault({}),
});

const eventSchema = z.object({
  type: z.string().default(''),
  reason: z.string().default(''),
  message: z.string().default(''),
  involvedObject: z.object({ kind: z.string().default(''), name: z.string().default('') }).prefault({}),
});

/** The used fields of a Node. */
export type KubeNode = z.output<typeof nodeSchema>;
/** The used fields of a Pod. */
export type KubePod = z.output<typeof podSchema>;
/** The used fields of an Event. */
type KubeEvent = z.output<typeof eventSchema>;

/** All nodes. @throws KubeError */
export async function listNodes(client: KubeClient, signal: AbortSignal): Promise<readonly KubeNode[]> {
  return list(client, '/api/v1/nodes', nodeSchema, signal);
}

/** The pods of one namespace, or of all. @throws KubeError */
export async function listPods(
  client: KubeClient,
  options: { readonly namespace?: string; readonly labelSelector?: string; readonly signal: AbortSignal },
): Promise<readonly KubePod[]> {
  const scope = options.namespace === undefined ? '' : `/namespaces/${encodeURIComponent(options.namespace)}`;
  const query =
    options.labelSelector === undefined ? '' : `?labelSelector=${encodeURIComponent(options.labelSelector)}`;
  return list(client, `/api/v1${scope}/pods${query}`, podSchema, options.signal);
}

/** The events of a namespace. @throws KubeError */
export async function listEvents(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly KubeEvent[]> {
  return list(client, `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`, eventSchema, signal);
}

/** Whether a node is Ready, and otherwise the reason that its kubelet reports. */
export function readinessOf({ status }: Pick<KubeNode, 'status'>): {
  readonly ready: boolean;
  readonly why: string;
} {
  const ready = status.conditions.find(({ type }) => type === 'Ready');
  if (ready === undefined) return { ready: false, why: 'the kubelet has not reported yet' };
  return { ready: ready.status === 'True', why: printable(ready.message || ready.reason) };
}

/** The part of a pod that says whether it is ready. */
interface PodReadiness {
  readonly status: {
    readonly phase: string;
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Whether a pod is ready, or has ended with success. */
export function isPodReady(pod: PodReadiness): boolean {
  if (pod.status.phase === 'Succeeded') return true;
  return pod.status.conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
}

/** The items of a list. @param accept the wanted representation, such as metadata only @throws KubeError */
export async function list<T>(
  client: KubeClient,
  path: string,
  schema: z.ZodType<T>,
  signal: AbortSignal,
  accept?: string,
): Promise<readonly T[]> {
  // The API server writes `null` for an empty list of metadata.
  const shape = z.object({ items: z.array(schema).nullable() });
  const parsed = shape.safeParse(await client.getJson(path, signal, accept));
  if (parsed.success) return parsed.data.items ?? [];
  throw new KubeError('kube-failed', `GET ${client.server}${path}: response has an unexpected shape`);
}
