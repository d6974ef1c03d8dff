import { MINUTES_PER_DAY } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { generateKeyPem, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { loadCa, readServersTrust, requireText, type CredentialPorts } from './key-pair.ts';
import type { KubeletPorts } from '../kubelet/kubelet.ts';
import { apiEndpointOf, PATHS, type KubernetesSettings } from '../settings.ts';

/**
 * User names and groups that kubeadm uses (cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go). The second user
 * creates the role binding of the first user.
 */
const ADMINS = {
  admin: { path: PATHS.adminConf, commonName: 'kubernetes-admin', organization: 'kubeadm:cluster-admins' },
  'super-admin': {
    path: PATHS.superAdminConf,
    commonName: 'kubernetes-super-admin',
    organization: 'system:masters',
  },
} as const;

/**
 * Creates the kubeconfigs for kubeadm and kubectl on this node. Each contains a new key and its certificate.
 */
export async function createAdminKubeconfigs(
  ports: CredentialPorts,
  settings: Pick<KubernetesSettings, 'apiEndpoint' | 'certificates'>,
  names: readonly (keyof typeof ADMINS)[],
): Promise<void> {
  const signer = await loadCa(ports, 'clients');
  const caPem = await readServersTrust(ports.files);
  const validDays = settings.certificates.controlPlaneMinutes / MINUTES_PER_DAY;
  for (const { path, commonName, organization } of names.map((name) => ADMINS[name])) {
    const key = generateKeyPem();
    const pubKeyDer = pubKeyDerOf(key);
    const certPem = await signer.issue({
      ...{ commonName, organization, pubKeyDer, usages: ['client'], names: [], validDays },
    });
    const config = [
      'apiVersion: v1',
      'kind: Config',
      'clusters:',
      '- name: cluster',
      '  cluster:',
      `    server: https://${apiEndpointOf(settings)}`,
      `    certificate-authority-data: ${base64(caPem)}`,
      'users:',
      `- name: ${commonName}`,
      '  user:',
      `    client-certificate-data: ${base64(certPem)}`,
      `    client-key-data: ${base64(key.reveal())}`,
      'contexts:',
      '- name: cluster',
      `  context: {cluster: cluster, user: ${commonName}}`,
      'current-context: cluster',
    ];
    await ports.files.writeAtomic(path, `${config.join('\n')}\n`);
  }
}

/**
 * Returns the API's response to the administrator of this node if the API refuses the request, otherwise
 * undefined. kubeadm retries for a minute and then reports only a timeout.
 */
export async function findAdminRefusal(
  { files, probeNode }: Pick<KubeletPorts, 'files' | 'probeNode'>,
  settings: Pick<KubernetesSettings, 'nodeName' | 'apiEndpoint'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const config = await requireText(files, PATHS.adminConf);
    const [caPem = '', certPem = '', keyPem = ''] = [
      'certificate-authority-data',
      'client-certificate-data',
      'client-key-data',
    ].map((name) => textIn(config, name));
    const { nodeName } = settings;
    const endpoint = apiEndpointOf(settings);
    await probeNode({ endpoint, nodeName, caPem, certPem, keyPem: new Secret(keyPem), signal });
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return describeError(error);
  }
}

function textIn(config: string, name: string): string {
  const data = new RegExp(`${name}: (\\S+)`).exec(config)?.[1] ?? '';
  return Buffer.from(data, 'base64').toString('utf8');
}

function base64(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64');
}
