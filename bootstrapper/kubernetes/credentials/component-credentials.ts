import { MINUTES_PER_DAY } from '../../../internal/clock/index.ts';
import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { readText } from '../../../internal/file/index.ts';
import {
  loadCa,
  kubeconfigOfFiles,
  ensureKeyPair,
  readServersTrust,
  type CredentialPorts,
} from './key-pair.ts';
import { COMPONENT_CLIENTS } from './key-files.ts';
import type { KubernetesSettings } from '../settings.ts';

/**
 * Creates certificates and kubeconfigs with which the controller manager and the scheduler call the API
 * server of this node. The kubeconfigs refer to files, because the components reload files. kubeadm would
 * embed the key and certificate, which the components read only once. Valid certificates and kubeconfigs are
 * kept.
 */
export async function createComponentCredentials(
  ports: CredentialPorts,
  { nodeAddress, certificates }: Pick<KubernetesSettings, 'nodeAddress' | 'certificates'>,
): Promise<void> {
  const { files } = ports;
  const signer = await loadCa(ports, 'clients');
  const serverCaPem = await readServersTrust(files);
  for (const { user, directory, key, cert, conf } of Object.values(COMPONENT_CLIENTS)) {
    await files.makeDirectory(directory);
    const validDays = certificates.controlPlaneMinutes / MINUTES_PER_DAY;
    const leaf = { commonName: user, usages: ['client'], names: [], validDays } as const;
    await ensureKeyPair(files, signer, { keyFile: key, certFile: cert, leaf });
    const config = kubeconfigOfFiles({
      server: `https://${formatEndpoint(nodeAddress, PORTS.apiServer)}`,
      caFile: `${directory}/ca.crt`,
      certFile: cert,
      keyFile: key,
    });
    await files.writeAtomic(`${directory}/ca.crt`, serverCaPem, { mode: 0o644 });
    // The pods mount this single file. An unchanged file must keep its inode, otherwise the pods would keep
    // the old file.
    if ((await readText(files, conf)) !== config) await files.writeAtomic(conf, config);
  }
}
