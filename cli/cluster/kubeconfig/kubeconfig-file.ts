import type { FilePort } from '../../../internal/file/index.ts';
import { accessFromKubeconfig, type KubeAccess } from '../../../internal/kube/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { MasterSecret } from '../../../internal/crypto/index.ts';
import { readMasterSecret, type SecretAccess, type WorkspaceLayout } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { adminKeyFrom } from '../init/init-request.ts';
import { assertAdminKey, kubeconfigFrom } from '../init/init-result.ts';
import type { OpenWorkspace } from '../open-workspace.ts';

/** The longest kubeconfig that is read. */
export const MAX_KUBECONFIG_BYTES = 1024 * 1024;

/**
 * Writes the kubeconfig from the result of the init. Its key is in the saved request, or is derived from the master secret.
 * @throws ClusterError `cluster-not-initialized`, `cluster-result-invalid`
 */
export async function writeKubeconfig(
  files: FilePort,
  workspace: OpenWorkspace,
  by: { readonly clusterName: string; readonly masterSecret: MasterSecret },
): Promise<void> {
  const { result, request } = workspace.state.value.init ?? {};
  if (result === undefined) {
    throw new ClusterError('cluster-not-initialized', `${workspace.layout.state} contains no init result`);
  }
  const key = request === undefined ? adminKeyFrom(by.masterSecret) : new Secret(request.adminKeyPem);
  assertAdminKey(result, key);
  const { text } = kubeconfigFrom(by.clusterName, result, key);
  await files.writeAtomic(workspace.layout.kubeconfig, text, { mode: 0o600 });
}

/** Whether the kubeconfig is missing or empty: `cluster kubeconfig > kubeconfig` empties it before this program runs. */
export async function lacksKubeconfig(files: FilePort, layout: WorkspaceLayout): Promise<boolean> {
  const stat = await files.stat(layout.kubeconfig);
  return stat === undefined || stat.sizeBytes === 0;
}

/** Writes the kubeconfig again if it is missing or empty. Returns whether it was written. */
export async function restoreKubeconfig(
  access: SecretAccess,
  workspace: OpenWorkspace,
  clusterName: string,
): Promise<boolean> {
  const { files } = access.ports;
  if (!(await lacksKubeconfig(files, workspace.layout))) return false;
  const masterSecret = await readMasterSecret(access, workspace.layout);
  await writeKubeconfig(files, workspace, { clusterName, masterSecret });
  return true;
}

/** The kubeconfig of the workspace as text. @throws ClusterError `cluster-no-kubeconfig` */
export async function readKubeconfig(files: FilePort, layout: WorkspaceLayout): Promise<string> {
  const raw = await files.read(layout.kubeconfig, MAX_KUBECONFIG_BYTES);
  if (raw !== undefined && raw.length > 0) return Buffer.from(raw).toString('utf8');
  const why = raw === undefined ? 'does not exist' : 'is empty';
  throw new ClusterError('cluster-no-kubeconfig', `${layout.kubeconfig} ${why}`);
}

/** Server and credentials of the kubeconfig of the workspace. @throws ClusterError `cluster-no-kubeconfig` */
export async function readKubeAccess(files: FilePort, layout: WorkspaceLayout): Promise<KubeAccess> {
  return accessFromKubeconfig(await readKubeconfig(files, layout), layout.kubeconfig);
}
