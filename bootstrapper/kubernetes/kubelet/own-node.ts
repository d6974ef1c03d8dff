import type { FilePort } from '../../../internal/file/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { NodeProbe } from '../controlplane/api-probe.ts';
import { readText } from '../credentials/key-pair.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { apiEndpointOf, type KubernetesSettings } from '../settings.ts';

/** Ports (injected dependencies) of the request for this node's Node object. */
export interface OwnNodePorts {
  readonly files: FilePort;
  readonly probeNode: NodeProbe;
}

/**
 * Resolves when the API returns this node's Node object to the kubelet. This request also tests the kubelet's
 * certificate.
 */
export async function findOwnNode(
  { files, probeNode }: OwnNodePorts,
  settings: Pick<KubernetesSettings, 'nodeName' | 'apiEndpoint'>,
  signal: AbortSignal,
): Promise<void> {
  const caPem = await readText(files, KUBELET_FILES.ca);
  const certPem = await readText(files, KUBELET_FILES.clientCert);
  const keyPem = new Secret(await readText(files, KUBELET_FILES.clientKey));
  const { nodeName } = settings;
  await probeNode({ endpoint: apiEndpointOf(settings), nodeName, caPem, certPem, keyPem, signal });
}
