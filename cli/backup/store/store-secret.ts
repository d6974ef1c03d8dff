import { COPY_STORE_SECRET } from '../../../internal/backup/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { KubeClient } from '../../../internal/kube/index.ts';
import { renderStoreCredentials, type StoreCredentials } from '../../../internal/objectstore/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readKubeAccess } from '../../cluster/index.ts';
import { layoutOf } from '../../workspace/index.ts';

const { namespace, name, key } = COPY_STORE_SECRET;
const PATH = `/api/v1/namespaces/${namespace}/secrets/${name}`;

/**
 * Gives control planes the access key of the store. Kubernetes encrypts it in etcd, and no Role lets other nodes read it.
 * @throws KubeError
 */
export async function writeStoreSecret(
  context: CommandContext,
  credentials: StoreCredentials,
): Promise<void> {
  const data = {
    [key]: Buffer.from(renderStoreCredentials(credentials).reveal(), 'utf8').toString('base64'),
  };
  const body = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type: 'Opaque', data };
  using client = await openKubernetes(context);
  const path = `${PATH}?fieldManager=cluster&force=true`;
  const contentType = 'application/apply-patch+yaml'; // JSON is also valid YAML
  await client.write({ method: 'PATCH', path, contentType, body }, context.signal);
}

/** Deletes the access key, which no schedule needs any more. @throws KubeError */
export async function deleteStoreSecret(context: CommandContext): Promise<void> {
  using client = await openKubernetes(context);
  await client.write({ method: 'DELETE', path: PATH }, context.signal).catch((error: unknown) => {
    if (findCoded(error)?.code !== 'kube-not-found') throw error;
  });
}

async function openKubernetes({ ports, paths }: CommandContext): Promise<KubeClient> {
  return new KubeClient(await readKubeAccess(ports.files, layoutOf(paths.workspace)), ports);
}
