import { z } from 'zod';
import { type KubeClient, KubeError } from './client/index.ts';
import { list } from './objects.ts';

const budgetSchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  status: z
    .object({
      expectedPods: z.int().min(0).default(0),
      currentHealthy: z.int().min(0).default(0),
      disruptionsAllowed: z.int().min(0).default(0),
    })
    .prefault({}),
});

const releaseSchema = z.object({
  metadata: z.object({ namespace: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
});

const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';

const diskSchema = z.object({
  availableBytes: z.number().min(0),
  capacityBytes: z.number().min(0),
  inodes: z.number().min(0).optional(),
  inodesFree: z.number().min(0).optional(),
});
const summarySchema = z.object({
  node: z.object({
    fs: diskSchema.optional(),
    runtime: z.object({ imageFs: diskSchema.optional() }).optional(),
  }),
});

/** A disruption budget and its status. */
type KubeBudget = z.output<typeof budgetSchema>;
/** Labels with which `cluster init` marks the releases that it installs; see `HelmRelease`. */
export const RELEASE_LABELS = { inputs: 'cluster-inputs', revision: 'cluster-revision' } as const;

/** A helm release: its newest revision. */
export interface HelmRelease {
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  /** "deployed", "failed", "pending-upgrade" … */
  readonly status: string;
  /** What `cluster init` installed last: the start of a hexadecimal SHA-256. Undefined for a release of another program. */
  readonly inputs?: string;
  /**
   * The revision that `cluster init` installed last. Helm copies the labels to later revisions, so it differs from
   * `revision` after an upgrade or rollback by another program.
   */
  readonly installedRevision?: number;
}
/** A file system as a kubelet reports it. */
export type KubeletDisk = z.output<typeof diskSchema> & { readonly name: 'kubelet disk' | 'image disk' };

/** All disruption budgets. @throws KubeError */
export async function listBudgets(client: KubeClient, signal: AbortSignal): Promise<readonly KubeBudget[]> {
  return list(client, '/apis/policy/v1/poddisruptionbudgets', budgetSchema, signal);
}

/** All helm releases, from the labels of their Secrets: the Secrets themselves are not transferred. @throws KubeError */
export async function listReleases(client: KubeClient, signal: AbortSignal): Promise<readonly HelmRelease[]> {
  const path = `/api/v1/secrets?labelSelector=${encodeURIComponent('owner=helm')}`;
  const secrets = await list(client, path, releaseSchema, signal, METADATA_ONLY);
  const newest = new Map<string, HelmRelease>();
  for (const { metadata } of secrets) {
    const { namespace, labels } = metadata;
    const { name = '', status = '', version = '' } = labels;
    const inputs = labels[RELEASE_LABELS.inputs];
    const installed = revisionFrom(labels[RELEASE_LABELS.revision]);
    const release: HelmRelease = {
      ...{ namespace, name, status, revision: revisionFrom(version) ?? 0 },
      ...(inputs !== undefined && { inputs }),
      ...(installed !== undefined && { installedRevision: installed }),
    };
    const known = newest.get(`${namespace}/${name}`);
    if (known === undefined || known.revision < release.revision) newest.set(`${namespace}/${name}`, release);
  }
  return [...newest.values()];
}

function revisionFrom(label: string | undefined): number | undefined {
  return label !== undefined && /^\d{1,9}$/.test(label) ? Number(label) : undefined;
}

/** The file systems of a node, from its kubelet through the API server. @throws KubeError */
export async function readKubeletDisks(
  client: KubeClient,
  nodeName: string,
  signal: AbortSignal,
): Promise<readonly KubeletDisk[]> {
  const path = `/api/v1/nodes/${encodeURIComponent(nodeName)}/proxy/stats/summary`;
  const parsed = summarySchema.safeParse(await client.getJson(path, signal));
  if (!parsed.success)
    throw new KubeError('kube-failed', `GET ${client.server}${path}: response has an unexpected shape`);
  const { fs, runtime } = parsed.data.node;
  return [
    ...(fs === undefined ? [] : [{ name: 'kubelet disk' as const, ...fs }]),
    ...(runtime?.imageFs === undefined ? [] : [{ name: 'image disk' as const, ...runtime.imageFs }]),
  ];
}

/** The version of an API server that is ready, such as "v1.37.2". @throws KubeError */
export async function readServerVersion(client: KubeClient, signal: AbortSignal): Promise<string> {
  await client.getText('/readyz', signal);
  const parsed = z.object({ gitVersion: z.string() }).safeParse(await client.getJson('/version', signal));
  return parsed.success ? parsed.data.gitVersion : '';
}
