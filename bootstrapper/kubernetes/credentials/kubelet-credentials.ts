import { dirname } from 'node:path';
import { MINUTES_PER_DAY } from '../../../internal/clock/index.ts';
import { kubeletServingMinutes } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { LeafSpec } from '../../../internal/pki/index.ts';
import {
  loadCa,
  isIssuedBy,
  kubeconfigOfFiles,
  ensureKeyPair,
  readServersTrust,
  requireText,
  type CredentialPorts,
} from './key-pair.ts';
import { KUBELET_FILES } from './key-files.ts';
import { writeKubeletServersCa } from './shared-keys.ts';
import { apiEndpointOf, PATHS, type KubernetesSettings } from '../settings.ts';

/**
 * Creates the certificates of the kubelet on the node that creates the cluster. Other nodes get them with the
 * join ticket. Valid certificates are kept.
 */
export async function createKubeletCredentials(
  ports: CredentialPorts,
  settings: Pick<KubernetesSettings, 'nodeId' | 'nodeName' | 'nodeAddress' | 'certificates'>,
): Promise<void> {
  const { files } = ports;
  const [servers, clients] = [await loadCa(ports, 'servers'), await loadCa(ports, 'clients')];
  await writeKubeletServersCa(files, await readServersTrust(files));
  const { nodeId, nodeName, nodeAddress, certificates } = settings;
  const subject = {
    commonName: `system:node:${nodeName}`,
    organization: 'system:nodes',
    // The membership webhook checks this user id (authorization-config.ts).
    userId: nodeId,
    validDays: certificates.kubeletMinutes / MINUTES_PER_DAY,
  };
  await ensureKeyPair(files, clients, {
    keyFile: KUBELET_FILES.clientKey,
    certFile: KUBELET_FILES.clientCert,
    leaf: { ...subject, usages: ['client'], names: [] },
  });
  const names: LeafSpec['names'] = [
    { type: 'dns', value: nodeName },
    { type: 'ip', value: nodeAddress },
  ];
  await ensureKeyPair(files, servers, {
    keyFile: KUBELET_FILES.servingKey,
    certFile: KUBELET_FILES.servingCert,
    leaf: {
      ...subject,
      usages: ['server'],
      names,
      validDays: kubeletServingMinutes(certificates) / MINUTES_PER_DAY,
    },
  });
}

/**
 * Writes the kubeconfig of the kubelet. It refers to files, so that the kubelet reloads renewed certificates.
 * On a worker, kubeadm's certificate directory stays empty: kubeadm would treat a CA without its key as an
 * external CA.
 * @throws KubernetesError `kubernetes-credentials-missing`
 */
export async function writeKubeletKubeconfig(
  files: FilePort,
  settings: Pick<KubernetesSettings, 'apiEndpoint'>,
): Promise<void> {
  for (const path of Object.values(KUBELET_FILES)) await requireText(files, path);
  await files.makeDirectory(dirname(PATHS.kubeletConf), 0o755);
  const config = kubeconfigOfFiles({
    server: `https://${apiEndpointOf(settings)}`,
    caFile: KUBELET_FILES.ca,
    certFile: KUBELET_FILES.clientCert,
    keyFile: KUBELET_FILES.clientKey,
  });
  await files.writeAtomic(PATHS.kubeletConf, config);
}

/** Whether this CA signed the client certificate of the kubelet. */
export async function isKubeletClientIssuedBy(files: FilePort, authorityPem: string): Promise<boolean> {
  return isIssuedBy(await requireText(files, KUBELET_FILES.clientCert), authorityPem);
}
