import { z } from 'zod';
import { type KubeClient, KubeError } from './client/index.ts';
import { list } from './objects.ts';

/** The ConfigMap from which pods of a namespace read the CA of API servers. */
export const SERVERS_CA_CONFIG_MAP = 'kube-root-ca.crt';
const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
/** Annotation of the pods of a workload; a new value restarts them one after the other, as `kubectl rollout restart` does. */
const RESTARTED_FOR = 'cluster/servers-ca-generation';

const configMapMetadata = z.object({
  metadata: z.object({
    namespace: z.string(),
    managedFields: z
      .array(
        z.object({ time: z.string().default(''), fieldsV1: z.record(z.string(), z.unknown()).default({}) }),
      )
      .default([]),
  }),
});

/** The last time at which the CA of API servers in a namespace changed. Pods of the namespace read this CA. */
export interface ServersCaChange {
  readonly namespace: string;
  readonly changedMs: number;
}

/**
 * The last change of the CA in each namespace. Omits namespaces for which the Kubernetes API does not know the time.
 * @throws KubeError
 */
export async function listServersCaChanges(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly ServersCaChange[]> {
  const selector = encodeURIComponent(`metadata.name=${SERVERS_CA_CONFIG_MAP}`);
  const path = `/api/v1/configmaps?fieldSelector=${selector}`;
  const all = await list(client, path, configMapMetadata, signal, METADATA_ONLY);
  return all.flatMap(({ metadata: { namespace, managedFields } }) => {
    const times = managedFields
      .filter(({ fieldsV1 }) => fieldsV1['f:data'] !== undefined)
      .map(({ time }) => Date.parse(time))
      .filter((ms) => Number.isFinite(ms));
    return times.length === 0 ? [] : [{ namespace, changedMs: Math.max(...times) }];
  });
}

/** The CA of API servers that new pods of a namespace read, PEM; undefined while there is none. @throws KubeError */
export async function readServersCa(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps/${SERVERS_CA_CONFIG_MAP}`;
  const found = await client.getJson(path, signal).catch(unlessMissing);
  return z.object({ data: z.object({ 'ca.crt': z.string() }) }).safeParse(found).data?.data['ca.crt'];
}

/** A workload of the cluster itself. */
export interface Workload {
  readonly kind: 'daemonsets' | 'deployments';
  readonly namespace: string;
  readonly name: string;
}

/**
 * Restarts the pods of a workload one after the other, once for each generation of the CA. Does nothing if there is no such workload.
 * @throws KubeError
 */
export async function restartForServersCa(
  client: KubeClient,
  { kind, namespace, name }: Workload,
  { generation, signal }: { readonly generation: number; readonly signal: AbortSignal },
): Promise<void> {
  const annotations = { [RESTARTED_FOR]: String(generation) };
  const written = client.write(
    {
      method: 'PATCH',
      path: `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/${kind}/${encodeURIComponent(name)}`,
      contentType: 'application/merge-patch+json',
      body: { spec: { template: { metadata: { annotations } } } },
    },
    signal,
  );
  await written.catch(unlessMissing);
}

function unlessMissing(error: unknown): undefined {
  if (error instanceof KubeError && error.code === 'kube-not-found') return undefined;
  throw error;
}
