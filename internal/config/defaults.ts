import { DEFAULT_KUBERNETES_VERSION } from '../bundle/index.ts';

/** All defaults of the configuration. */
export const DEFAULTS = {
  kubernetesVersion: DEFAULT_KUBERNETES_VERSION,
  podSubnet: '10.244.0.0/16',
  serviceSubnet: '10.96.0.0/12',
  joinPolicy: 'approve',
  chartNamespace: 'default',
  chartTimeoutSeconds: 300,
  nodeCertificateMinutes: 7 * 24 * 60,
  kubeletCertificateMinutes: 365 * 24 * 60,
  controlPlaneCertificateMinutes: 365 * 24 * 60,
  operatorCertificateMinutes: 365 * 24 * 60,
} as const;

/** The Helm release of the pod network. This chart is installed first, because pods need the network. */
export const NETWORK_CHART = 'flannel';
/** The namespace of the Helm release of the pod network. */
export const NETWORK_NAMESPACE = 'kube-flannel';

/** The IP families of a local cluster: `dual` is IPv4 first, and IPv6. */
export type LocalFamilies = 'ipv4' | 'dual' | 'ipv6';

/** The networks of local clusters: in 198.18.0.0/15 (RFC 2544) and 2001:2::/48 (RFC 5180), which are reserved for tests. */
export const LOCAL_NETWORKS = {
  ipv4: { podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/17' },
  dual: {
    podSubnet: '198.19.0.0/17,2001:2:0:8000::/56',
    serviceSubnet: '198.19.128.0/17,2001:2:0:9000::/108',
  },
  ipv6: { podSubnet: '2001:2:0:8000::/56', serviceSubnet: '2001:2:0:9000::/108' },
} as const;
