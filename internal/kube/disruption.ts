import { z } from 'zod';
import { describeShape } from '../errors/index.ts';
import { type KubeClient, KubeError } from './client/index.ts';
import { isPodReady } from './objects.ts';
import { tolerationShape } from './tolerations.ts';

const MIRROR = 'kubernetes.io/config.mirror';

const podOnNode = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string().default(''),
    deletionTimestamp: z.string().optional(),
    annotations: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(z.object({ kind: z.string(), name: z.string() })).default([]),
  }),
  spec: z.object({
    volumes: z.array(z.looseObject({ name: z.string() })).default([]),
    tolerations: z.array(tolerationShape).default([]),
  }),
  status: z
    .object({
      phase: z.string().default(''),
      conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
    })
    .prefault({}),
});

/** Whether a pod can leave its node, and why not. */
type PodKind =
  /** A static pod, which only the kubelet of its node can stop. */
  | 'mirror'
  /** A pod of a DaemonSet, which would recreate it at once. */
  | 'daemon'
  /** A pod without a controller: no controller recreates it on another node. */
  | 'alone'
  /** A pod with emptyDir volumes, which its eviction deletes. */
  | 'with-data'
  | 'finished'
  | 'movable';

/** A pod that runs on a node. */
export interface PodOnNode {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly kind: PodKind;
  readonly isReady: boolean;
  /** The deletion of the pod was requested. */
  readonly isTerminating: boolean;
  readonly tolerations: readonly z.output<typeof tolerationShape>[];
}

/** All pods on a node. */
export async function listPodsOn(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<readonly PodOnNode[]> {
  const selector = encodeURIComponent(`spec.nodeName=${nodeName}`);
  const parsed = z
    .object({ items: z.array(podOnNode) })
    .safeParse(await client.getJson(`/api/v1/pods?fieldSelector=${selector}`, signal));
  if (!parsed.success)
    throw new KubeError('kube-failed', `listing pods on ${nodeName}: ${describeShape(parsed.error)}`);
  return parsed.data.items.map((pod) => ({
    namespace: pod.metadata.namespace,
    name: pod.metadata.name,
    uid: pod.metadata.uid,
    kind: kindOf(pod),
    isReady: isPodReady(pod),
    isTerminating: pod.metadata.deletionTimestamp !== undefined,
    tolerations: pod.spec.tolerations,
  }));
}

/**
 * Evicts a pod if the disruption budgets allow that. Succeeds when the pod does not exist.
 * @throws KubeError `kube-not-now` while a budget forbids the eviction
 */
export async function evictPod(
  client: KubeClient,
  pod: Pick<PodOnNode, 'namespace' | 'name' | 'uid'>,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name, uid } = pod;
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`;
  const body = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace },
    // The API server refuses this uid for a new pod that has the same name, so the new pod is not evicted.
    deleteOptions: { preconditions: { uid } },
  };
  await ignoringAbsence(client.write({ method: 'POST', path, body }, signal));
}

/** Deletes the Node object. Succeeds when it does not exist. */
export async function deleteNodeObject(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<void> {
  const path = `/api/v1/nodes/${encodeURIComponent(nodeName)}`;
  await ignoringAbsence(client.write({ method: 'DELETE', path }, signal));
}

async function ignoringAbsence(change: Promise<void>): Promise<void> {
  try {
    await change;
  } catch (error) {
    if (!(error instanceof KubeError) || error.code !== 'kube-not-found') throw error;
  }
}

function kindOf({ metadata, spec, status }: z.output<typeof podOnNode>): PodKind {
  if (metadata.annotations[MIRROR] !== undefined) return 'mirror';
  if (metadata.ownerReferences.some(({ kind }) => kind === 'DaemonSet')) return 'daemon';
  if (status.phase === 'Succeeded' || status.phase === 'Failed') return 'finished';
  if (metadata.ownerReferences.length === 0) return 'alone';
  return spec.volumes.some((volume) => 'emptyDir' in volume) ? 'with-data' : 'movable';
}
