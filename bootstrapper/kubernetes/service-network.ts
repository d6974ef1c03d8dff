/** The default of kubeadm and CoreDNS. */
export const CLUSTER_DOMAIN = 'cluster.local';

/** The name of the API server, which the DNS of every cluster knows. */
export const API_SERVICE_NAME = `kubernetes.default.svc.${CLUSTER_DOMAIN}`;

/**
 * Index of the address in the service network that kubeadm assigns to each service
 * (cmd/kubeadm/app/constants: GetDNSIP, GetAPIServerVirtualIP).
 */
const INDEX_OF = { kubernetes: 1, dns: 10 } as const;

/** The address of a built-in service. `subnet`: IPv4 network, with or without host bits. */
export function serviceAddressIn(subnet: string, service: keyof typeof INDEX_OF): string {
  const [address = '', prefix = ''] = subnet.split('/');
  const value = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const host = value - (value % 2 ** (32 - Number(prefix))) + INDEX_OF[service];
  return [24, 16, 8, 0].map((bits) => Math.floor(host / 2 ** bits) % 256).join('.');
}
