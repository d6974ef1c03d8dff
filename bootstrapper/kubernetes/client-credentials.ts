import { authorityOf, kubeconfigOfFiles, makePair, readText, type CredentialPorts } from './key-pair.ts';
import { CLIENTS } from './material.ts';
import { API_PORT, PATHS, type KubernetesSettings } from './settings.ts';

const MAX_BYTES = 64 * 1024;
const MINUTES_PER_DAY = 24 * 60;

/**
 * What the controller manager and the scheduler prove themselves with to the API server beside them. kubeadm would put
 * key and certificate into their kubeconfigs, which they read once; these name files, which they follow. What is there
 * stays.
 */
export async function placeClientCredentials(
  ports: CredentialPorts,
  { nodeAddress, certificates }: Pick<KubernetesSettings, 'nodeAddress' | 'certificates'>,
): Promise<void> {
  const { files } = ports;
  const signer = await authorityOf(ports, 'clients');
  const serverCaPem = await readText(files, `${PATHS.pki}/ca.crt`);
  const host = nodeAddress.includes(':') ? `[${nodeAddress}]` : nodeAddress;
  for (const { user, folder, key, cert, conf } of Object.values(CLIENTS)) {
    await files.makeDirectory(folder);
    const validDays = certificates.controlPlaneMinutes / MINUTES_PER_DAY;
    const leaf = { commonName: user, usages: ['client'], names: [], validDays } as const;
    await makePair(files, signer, { keyFile: key, certFile: cert, leaf });
    const config = kubeconfigOfFiles({
      server: `https://${host}:${API_PORT}`,
      caFile: `${folder}/ca.crt`,
      certFile: cert,
      keyFile: key,
    });
    await files.writeAtomic(`${folder}/ca.crt`, serverCaPem, { mode: 0o644 });
    const found = await files.read(conf, MAX_BYTES);
    // The pods are given this file alone: the same again must not be another file.
    if (found === undefined || Buffer.from(found).toString('utf8') !== config)
      await files.writeAtomic(conf, config);
  }
}

/** What the API server proves itself with to kubelets and to extensions, where kubeadm's CA signs for servers only. */
export async function makeApiServerClients(
  ports: CredentialPorts,
  { controlPlaneMinutes }: KubernetesSettings['certificates'],
): Promise<void> {
  const validDays = controlPlaneMinutes / MINUTES_PER_DAY;
  const leaf = { usages: ['client'], names: [], validDays } as const;
  // Names and group are kubeadm's (cmd/kubeadm/app/phases/certs/certlist.go).
  const toKubelets = { commonName: 'kube-apiserver-kubelet-client', organization: 'kubeadm:cluster-admins' };
  const toExtensions = { commonName: 'front-proxy-client' };
  for (const [name, authority, whom] of [
    ['apiserver-kubelet-client', 'clients', toKubelets],
    ['front-proxy-client', 'front-proxy', toExtensions],
  ] as const) {
    const [keyFile, certFile] = [`${PATHS.pki}/${name}.key`, `${PATHS.pki}/${name}.crt`];
    const signer = await authorityOf(ports, authority);
    await makePair(ports.files, signer, { keyFile, certFile, leaf: { ...leaf, ...whom } });
  }
}
