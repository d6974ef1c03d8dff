/** kubeadm's and CoreDNS' default. */
export const CLUSTER_DOMAIN = 'cluster.local';

/** Which addresses of the service network kubeadm gives away (cmd/kubeadm/app/constants: GetDNSIP, GetAPIServerVirtualIP). */
const INDEX_OF = { kubernetes: 1, dns: 10 } as const;

/** Where a service that the cluster comes with answers. `subnet`: IPv4, with host bits or without. */
export function serviceAddressIn(subnet: string, service: keyof typeof INDEX_OF): string {
  const [address = '', prefix = ''] = subnet.split('/');
  const value = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const host = value - (value % 2 ** (32 - Number(prefix))) + INDEX_OF[service];
  return [24, 16, 8, 0].map((bits) => Math.floor(host / 2 ** bits) % 256).join('.');
}
