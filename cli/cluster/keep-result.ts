import type { FilePort } from '../../internal/file/index.ts';
import { accessFromKubeconfig, type KubeAccess } from '../../internal/kube/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { WorkspaceLayout } from '../workspace/index.ts';
import { ClusterError } from './errors.ts';
import { kubeconfigFrom } from './init-result.ts';
import type { OpenWorkspace } from './open-workspace.ts';

const MAX_KUBECONFIG_BYTES = 1024 * 1024;

/** Writes the kubeconfig from the granted result. The state keeps key and request until this has happened for sure. */
export async function keepResult(
  files: FilePort,
  workspace: OpenWorkspace,
  clusterName: string,
): Promise<void> {
  const { result, request } = workspace.state.value.init ?? {};
  if (result === undefined || request === undefined) {
    throw new ClusterError(
      'cluster-not-initialized',
      `reading ${workspace.layout.state}: there is no result of an init`,
    );
  }
  const { text } = kubeconfigFrom(clusterName, result, new Secret(request.adminKeyPem));
  await files.writeAtomic(workspace.layout.kubeconfig, text, { mode: 0o600 });
}

/** The kubeconfig of the workspace as text. @throws ClusterError `cluster-not-initialized` */
export async function readKubeconfig(files: FilePort, layout: WorkspaceLayout): Promise<string> {
  const raw = await files.read(layout.kubeconfig, MAX_KUBECONFIG_BYTES);
  if (raw !== undefined) return Buffer.from(raw).toString('utf8');
  throw new ClusterError('cluster-not-initialized', `reading ${layout.kubeconfig}: it does not exist`);
}

export async function readAccess(files: FilePort, layout: WorkspaceLayout): Promise<KubeAccess> {
  return accessFromKubeconfig(await readKubeconfig(files, layout), layout.kubeconfig);
}
