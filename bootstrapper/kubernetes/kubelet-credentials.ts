import type { FilePort } from '../../internal/file/index.ts';
import type { LeafSpec } from '../../internal/pki/index.ts';
import { authorityOf, kubeconfigOfFiles, makePair, readText, type CredentialPorts } from './key-pair.ts';
import { KUBELET_FILES } from './material.ts';
import { apiEndpointOf, PATHS, type KubernetesSettings } from './settings.ts';

const MINUTES_PER_DAY = 24 * 60;

/**
 * What the kubelet of a node that creates the cluster proves itself with, from the CA that was just made: the same that
 * every later node gets with its ticket. What is there stays.
 */
export async function makeKubeletCredentials(
  ports: CredentialPorts,
  settings: Pick<KubernetesSettings, 'nodeId' | 'nodeName' | 'nodeAddress' | 'certificates'>,
): Promise<void> {
  const { files } = ports;
  const signer = await authorityOf(ports, 'ca');
  await files.makeDirectory(folderOf(KUBELET_FILES.ca));
  await files.writeAtomic(KUBELET_FILES.ca, signer.caPem, { mode: 0o644 });
  const { nodeId, nodeName, nodeAddress, certificates } = settings;
  const whom = {
    commonName: `system:node:${nodeName}`,
    organization: 'system:nodes',
    // By it the API servers know which machine this is (./authorization.ts).
    userId: nodeId,
    validDays: certificates.kubeletMinutes / MINUTES_PER_DAY,
  };
  await makePair(files, signer, {
    keyFile: KUBELET_FILES.clientKey,
    certFile: KUBELET_FILES.clientCert,
    leaf: { ...whom, usages: ['client'], names: [] },
  });
  const names: LeafSpec['names'] = [
    { type: 'dns', value: nodeName },
    { type: 'ip', value: nodeAddress },
  ];
  await makePair(files, signer, {
    keyFile: KUBELET_FILES.servingKey,
    certFile: KUBELET_FILES.servingCert,
    leaf: { ...whom, usages: ['server'], names },
  });
}

/**
 * The kubelet's kubeconfig. It names files, so that renewed certificates are taken without a restart. kubeadm's folder of
 * certificates stays empty on a worker: a CA without its key is something else to kubeadm ("external CA").
 * @throws KubernetesError `kubernetes-credentials-missing`
 */
export async function placeKubeletCredentials(
  files: FilePort,
  settings: Pick<KubernetesSettings, 'apiEndpoint'>,
): Promise<void> {
  for (const path of Object.values(KUBELET_FILES)) await readText(files, path);
  await files.makeDirectory(folderOf(PATHS.kubeletConf), 0o755);
  const config = kubeconfigOfFiles({
    server: `https://${apiEndpointOf(settings)}`,
    caFile: KUBELET_FILES.ca,
    certFile: KUBELET_FILES.clientCert,
    keyFile: KUBELET_FILES.clientKey,
  });
  await files.writeAtomic(PATHS.kubeletConf, config);
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
