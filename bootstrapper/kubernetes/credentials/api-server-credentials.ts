import { isIP } from 'node:net';
import { MINUTES_PER_DAY } from '../../../internal/clock/index.ts';
import { hostOf } from '../../../internal/endpoint/index.ts';
import type { SubjectName } from '../../../internal/pki/index.ts';
import { loadCa, ensureKeyPair, type CredentialPorts } from './key-pair.ts';
import { CLUSTER_DOMAIN, serviceAddressesIn } from '../service-network.ts';
import { nodeAddressesOf, PATHS, type KubernetesSettings } from '../settings.ts';

/**
 * Creates the API server's certificates: for its clients, for kubelets and for extension API servers. Names
 * and groups are those of kubeadm (cmd/kubeadm/app/phases/certs/certlist.go). Valid certificates are kept.
 */
export async function createApiServerCredentials(
  ports: CredentialPorts,
  settings: KubernetesSettings,
): Promise<void> {
  const validDays = settings.certificates.controlPlaneMinutes / MINUTES_PER_DAY;
  const client = { usages: ['client'], names: [], validDays } as const;
  const leaves = [
    {
      name: 'apiserver',
      authority: 'servers',
      leaf: { commonName: 'kube-apiserver', usages: ['server'], names: apiServerNames(settings), validDays },
    },
    {
      name: 'apiserver-kubelet-client',
      authority: 'clients',
      leaf: {
        ...client,
        commonName: 'kube-apiserver-kubelet-client',
        organization: 'kubeadm:cluster-admins',
      },
    },
    {
      name: 'front-proxy-client',
      authority: 'front-proxy',
      leaf: { ...client, commonName: 'front-proxy-client' },
    },
  ] as const;
  for (const { name, authority, leaf } of leaves) {
    const [keyFile, certFile] = [`${PATHS.pki}/${name}.key`, `${PATHS.pki}/${name}.crt`];
    await ensureKeyPair(ports.files, await loadCa(ports, authority), { keyFile, certFile, leaf });
  }
}

/**
 * Names in the certificate of an API server: the service name for pods, the balancer's name for nodes, and
 * names from the configuration.
 */
export function apiServerNames(
  settings: Pick<
    KubernetesSettings,
    'nodeName' | 'nodeAddress' | 'secondaryAddress' | 'serviceSubnet' | 'apiServerSans' | 'apiEndpoint'
  >,
): readonly SubjectName[] {
  const { nodeName, serviceSubnet, apiServerSans, apiEndpoint } = settings;
  const service = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
  const texts = [
    ...[nodeName, ...service, `kubernetes.default.svc.${CLUSTER_DOMAIN}`, 'localhost'],
    ...serviceAddressesIn(serviceSubnet, 'kubernetes'),
    ...nodeAddressesOf(settings),
    '127.0.0.1',
    ...apiServerSans,
    ...(apiEndpoint === undefined ? [] : [hostOf(apiEndpoint)]),
  ];
  return [...new Set(texts)].map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }));
}
