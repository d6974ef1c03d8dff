import { z } from 'zod';
import { printable } from '../printable/index.ts';
import { type KubeClient, KubeError } from './client/index.ts';
import { list, type KubePod } from './objects.ts';

/** More events of one pod are not read. */
const MAX_EVENTS = 100;
const LOG_LINES = 20;
const LOG_BYTES = 8_192;
const MAX_CHARS = 300;

const name = z.string().default('');
const time = z.string().nullish();
const condition = z.object({ type: name, status: name, reason: name, message: name });
const conditions = z.array(condition).default([]);
const named = z.object({ name, namespace: name });

const webhookConfiguration = z.object({
  metadata: named,
  webhooks: z
    .array(
      z.object({
        name,
        failurePolicy: z.string().default('Fail'),
        clientConfig: z.object({ service: named.optional() }).prefault({}),
      }),
    )
    .default([]),
});
const service = z.object({ spec: z.object({ type: name }).prefault({}) });
const endpointSlice = z.object({
  endpoints: z
    .array(z.object({ conditions: z.object({ ready: z.boolean().nullish() }).prefault({}) }))
    .nullish(),
});
const apiService = z.object({ metadata: named, status: z.object({ conditions }).prefault({}) });
const namespace = z.object({
  metadata: z.object({ name, deletionTimestamp: time }),
  status: z.object({ conditions }).prefault({}),
});
const deployment = z.object({
  metadata: named,
  spec: z.object({ replicas: z.number().default(1) }).prefault({}),
  status: z.object({ replicas: z.number().default(0), conditions }).prefault({}),
});
const event = z.object({
  reason: name,
  message: name,
  ...{ lastTimestamp: time, eventTime: time, series: z.object({ lastObservedTime: time }).nullish() },
});

/** A webhook that API servers call, and the service behind it. */
export interface WebhookService {
  /** The webhook's name, such as "validate.policy.example.com". */
  readonly name: string;
  /** Whether API servers refuse a request when the webhook does not respond. */
  readonly isRequired: boolean;
  /** "NAMESPACE/NAME". */
  readonly service: string;
  readonly readyEndpoints: number;
}
/** A part of the Kubernetes API that another server answers, and why it is not available. */
export interface UnavailableApi {
  /** "v1beta1.metrics.k8s.io". */
  readonly name: string;
  readonly why: string;
}
/** A namespace whose deletion was requested, and what it still waits for. */
export interface TerminatingNamespace {
  readonly name: string;
  readonly sinceMs: number;
  readonly why: string;
  /** Objects are left only because of their finalizers: a program that no longer runs may have to remove these. */
  readonly waitsForFinalizers: boolean;
}
/** A deployment for which Kubernetes cannot create all pods. */
export interface BlockedDeployment {
  readonly namespace: string;
  readonly name: string;
  readonly wanted: number;
  readonly created: number;
  readonly why: string;
}

/** The admission webhooks that a service of the cluster answers. @throws KubeError */
export async function listWebhookServices(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly WebhookService[]> {
  const kinds = ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'];
  const lists = await Promise.all(
    kinds.map((kind) =>
      list(client, `/apis/admissionregistration.k8s.io/v1/${kind}`, webhookConfiguration, signal),
    ),
  );
  const hooks = lists.flat().flatMap(({ webhooks }) =>
    webhooks.flatMap(({ name: of, failurePolicy, clientConfig: { service } }) => {
      return service === undefined ? [] : [{ name: of, isRequired: failurePolicy === 'Fail', service }];
    }),
  );
  // Many webhooks of one program have the same service.
  const keyOf = ({ namespace: of, name: service }: z.output<typeof named>) => `${of}/${service}`;
  const services = new Map(hooks.map((hook) => [keyOf(hook.service), hook.service]));
  const counts = new Map(
    await Promise.all(
      [...services].map(
        async ([key, service]) => [key, await countReadyEndpoints(client, service, signal)] as const,
      ),
    ),
  );
  return hooks.flatMap(({ service, ...rest }) => {
    const readyEndpoints = counts.get(keyOf(service));
    return readyEndpoints === undefined ? [] : [{ ...rest, service: keyOf(service), readyEndpoints }];
  });
}

/** The ready endpoints of a service; undefined for a name outside of the cluster, which has none. */
async function countReadyEndpoints(
  client: KubeClient,
  of: z.output<typeof named>,
  signal: AbortSignal,
): Promise<number | undefined> {
  const selector = encodeURIComponent(`kubernetes.io/service-name=${of.name}`);
  const path = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(of.namespace)}/endpointslices?labelSelector=${selector}`;
  const slices = await list(client, path, endpointSlice, signal);
  // An endpoint without this condition counts as ready (Kubernetes API, EndpointConditions).
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  const ready = endpoints.filter(({ conditions: is }) => is.ready !== false).length;
  return ready === 0 && (await isExternal(client, of, signal)) ? undefined : ready;
}

async function isExternal(
  client: KubeClient,
  of: z.output<typeof named>,
  signal: AbortSignal,
): Promise<boolean> {
  const path = `/api/v1/namespaces/${encodeURIComponent(of.namespace)}/services/${encodeURIComponent(of.name)}`;
  try {
    return service.safeParse(await client.getJson(path, signal)).data?.spec.type === 'ExternalName';
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-not-found') return false;
    throw error;
  }
}

/** The parts of the Kubernetes API that other servers answer and that are not available. @throws KubeError */
export async function listUnavailableApis(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly UnavailableApi[]> {
  const all = await list(client, '/apis/apiregistration.k8s.io/v1/apiservices', apiService, signal);
  return all.flatMap(({ metadata, status }) => {
    const failed = status.conditions.find(({ type, status: is }) => type === 'Available' && is !== 'True');
    return failed === undefined ? [] : [{ name: metadata.name, why: clause(failed) }];
  });
}

/** The namespaces whose deletion was requested. @throws KubeError */
export async function listTerminatingNamespaces(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly TerminatingNamespace[]> {
  const all = await list(client, '/api/v1/namespaces', namespace, signal);
  return all.flatMap(({ metadata, status }) => {
    const sinceMs = Date.parse(metadata.deletionTimestamp ?? '');
    if (Number.isNaN(sinceMs)) return [];
    const open = status.conditions.filter((each) => each.status === 'True');
    const waitsForFinalizers = open.some(({ type }) => type === 'NamespaceFinalizersRemaining');
    return [{ name: metadata.name, sinceMs, why: open.map(clause).join('; '), waitsForFinalizers }];
  });
}

/** The deployments for which Kubernetes cannot create all pods: a quota, a webhook or a policy refuses them. @throws KubeError */
export async function listBlockedDeployments(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly BlockedDeployment[]> {
  const all = await list(client, '/apis/apps/v1/deployments', deployment, signal);
  return all.flatMap(({ metadata, spec, status }) => {
    const failed = status.conditions.find(
      ({ type, status: is }) => type === 'ReplicaFailure' && is === 'True',
    );
    if (failed === undefined) return [];
    return [{ ...metadata, wanted: spec.replicas, created: status.replicas, why: clause(failed) }];
  });
}

/** The newest warning about a pod, "REASON: MESSAGE"; undefined if there is none. @throws KubeError */
export async function readPodWarning(
  client: KubeClient,
  { metadata }: Pick<KubePod, 'metadata'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const selector = encodeURIComponent(
    `involvedObject.kind=Pod,involvedObject.name=${metadata.name},type=Warning`,
  );
  const path = `/api/v1/namespaces/${encodeURIComponent(metadata.namespace)}/events?fieldSelector=${selector}&limit=${MAX_EVENTS}`;
  const events = await list(client, path, event, signal);
  const newest = events.toSorted((a, b) => lastSeenMs(a) - lastSeenMs(b)).at(-1);
  // An earlier pod may have had the same name.
  const isOwn = newest !== undefined && lastSeenMs(newest) >= (Date.parse(metadata.creationTimestamp) || 0);
  return isOwn ? clause(newest) : undefined;
}

/** The end of the log of a container's last run; undefined if it was deleted. @throws KubeError */
export async function readPreviousLog(
  client: KubeClient,
  of: { readonly namespace: string; readonly pod: string; readonly container: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const [ns, pod, container] = [of.namespace, of.pod, of.container].map(encodeURIComponent);
  const path = `/api/v1/namespaces/${ns}/pods/${pod}/log?container=${container}&previous=true&tailLines=${LOG_LINES}&limitBytes=${LOG_BYTES}`;
  try {
    const text = await client.getText(path, signal);
    // The kubelet answers so, with status 200, when the container is gone already.
    return text.startsWith('unable to retrieve container logs for ') ? undefined : text;
  } catch (error) {
    // The kubelet keeps the log of the run before the last one only while its container exists.
    if (error instanceof KubeError && error.code !== 'kube-unreachable') return undefined;
    throw error;
  }
}

function lastSeenMs({ lastTimestamp, eventTime, series }: z.output<typeof event>): number {
  const times = [series?.lastObservedTime, lastTimestamp, eventTime].map((each) => Date.parse(each ?? ''));
  return Math.max(0, ...times.filter((ms) => Number.isFinite(ms)));
}

function clause({ reason, message }: { readonly reason: string; readonly message: string }): string {
  return shorten(message === '' ? reason : `${reason}: ${message}`);
}

function shorten(text: string): string {
  const clean = printable(text);
  return clean.length <= MAX_CHARS ? clean : `${clean.slice(0, MAX_CHARS - 1)}…`;
}
