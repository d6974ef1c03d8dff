import { z } from 'zod';
import {
  REGISTRY_CREDENTIALS,
  renderRegistryLogins,
  serversWithCredentials,
  type RegistriesConfig,
} from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { KubeError, type KubeClient } from '../../internal/kube/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { WorkspaceLayout } from '../workspace/index.ts';
import { parseLogins, readLogins, selectLogins, type Logins } from './read-logins.ts';

const { namespace, name, key } = REGISTRY_CREDENTIALS;
const secretShape = z.object({ data: z.object({ [key]: z.base64().optional() }).optional() });

const SECRETS = `/api/v1/namespaces/${namespace}/secrets`;
const RBAC = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;

type ApiClient = Pick<KubeClient, 'getJson' | 'write'>;

/** Where the credentials come from, and for which registries the nodes need them. */
interface StoreOptions {
  readonly client: ApiClient;
  readonly files: FilePort;
  readonly layout: WorkspaceLayout;
  readonly registries: RegistriesConfig;
  /** Keeps credentials of other registries: the configuration of the cluster may be newer than cluster.yaml. */
  readonly keepsOthers?: boolean;
  readonly signal: AbortSignal;
}

/**
 * Writes the Secret that nodes read, with the credentials of exactly these registries. Credentials that the workspace
 * does not have stay as they are: another operator may have added them.
 * @throws RegistriesError, KubeError
 */
export async function storeLogins(options: StoreOptions): Promise<void> {
  const { client, files, layout, registries, keepsOthers = false, signal } = options;
  const servers = serversWithCredentials(registries);
  if (servers.length === 0) return deleteSecret(client, signal);
  const stored = await readStored(client, signal);
  const needed = selectLogins(servers, [await readLogins(files, layout), stored], layout);
  const logins = new Map([...(keepsOthers ? stored : []), ...needed]);
  // The permission first: nodes may look for the Secret as soon as it exists.
  for (const { path, body } of objects(renderRegistryLogins(logins))) {
    const query = 'fieldManager=cluster&force=true';
    const contentType = 'application/apply-patch+yaml'; // JSON is also valid YAML
    await client.write({ method: 'PATCH', path: `${path}/${name}?${query}`, contentType, body }, signal);
  }
}

/** A Secret that cannot be read must not be replaced: it may have credentials of another operator. */
async function readStored(client: ApiClient, signal: AbortSignal): Promise<Logins> {
  try {
    const { data } = secretShape.parse(await client.getJson(`${SECRETS}/${name}`, signal));
    const text = Buffer.from(data?.[key] ?? '', 'base64').toString('utf8');
    return parseLogins(`Secret ${namespace}/${name}`, text);
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-not-found') return new Map();
    throw error;
  }
}

async function deleteSecret(client: ApiClient, signal: AbortSignal): Promise<void> {
  for (const path of [SECRETS, `${RBAC}/rolebindings`, `${RBAC}/roles`])
    await client.write({ method: 'DELETE', path: `${path}/${name}` }, signal).catch((error: unknown) => {
      if (!(error instanceof KubeError && error.code === 'kube-not-found')) throw error;
    });
}

/**
 * A Role lets the kubelets of all nodes read this one Secret. The authorization webhook of the cluster refuses removed
 * nodes before the Role is evaluated.
 */
function objects(file: Secret<string>): readonly { readonly path: string; readonly body: object }[] {
  const metadata = { name, namespace };
  const rbac = 'rbac.authorization.k8s.io';
  return [
    {
      path: `${RBAC}/roles`,
      body: {
        ...{ apiVersion: `${rbac}/v1`, kind: 'Role', metadata },
        rules: [{ apiGroups: [''], resources: ['secrets'], resourceNames: [name], verbs: ['get'] }],
      },
    },
    {
      path: `${RBAC}/rolebindings`,
      body: {
        ...{ apiVersion: `${rbac}/v1`, kind: 'RoleBinding', metadata },
        roleRef: { apiGroup: rbac, kind: 'Role', name },
        subjects: [{ apiGroup: rbac, kind: 'Group', name: 'system:nodes' }],
      },
    },
    {
      path: SECRETS,
      body: {
        ...{ apiVersion: 'v1', kind: 'Secret', metadata, type: 'kubernetes.io/dockerconfigjson' },
        data: { [key]: Buffer.from(file.reveal(), 'utf8').toString('base64') },
      },
    },
  ];
}
