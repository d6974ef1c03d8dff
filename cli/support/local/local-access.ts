import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import { accessFromKubeconfig, type KubeAccess } from '../../../internal/kube/index.ts';
import { renderNodeMetrics } from '../../../internal/metrics/index.ts';
import type { LocalPorts } from './local-ports.ts';

/** The kubeconfig of root on a control plane (bootstrapper/kubernetes/settings.ts). */
const ADMIN_CONF = '/etc/kubernetes/admin.conf';

/** The access of root on a control plane to the Kubernetes API. */
export async function readAdminAccess(files: Pick<FilePort, 'read'>): Promise<KubeAccess> {
  const text = await readText(files, ADMIN_CONF);
  if (text === undefined) throw new Error(`${ADMIN_CONF} not found`);
  return accessFromKubeconfig(text, ADMIN_CONF);
}

/** The URL of the API server on a node with this address. */
export function apiServerAt(address: string): string {
  return `https://${formatEndpoint(address, PORTS.apiServer)}`;
}

/** The metrics of every program on this machine that responds. */
export function readLocalMetrics(
  { readPage }: Pick<LocalPorts, 'readPage'>,
  isControlPlane: boolean,
  signal: AbortSignal,
): Promise<string> {
  const agent = `http://127.0.0.1:${PORTS.agentMetrics}/metrics`;
  return renderNodeMetrics({
    agent: async () => {
      const page = await readPage(agent, signal);
      return page?.ok === true ? page.text : undefined;
    },
    isControlPlane,
    read: (url) => readPage(url, signal),
  });
}
