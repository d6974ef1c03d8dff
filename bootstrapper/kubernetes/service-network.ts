import { addressIn, subnetsFrom } from '../../internal/config/index.ts';

/** The default of kubeadm and CoreDNS. */
export const CLUSTER_DOMAIN = 'cluster.local';

/** The name of the API server, which the DNS of every cluster knows. */
export const API_SERVICE_NAME = `kubernetes.default.svc.${CLUSTER_DOMAIN}`;

/**
 * Index of the address in the service network that kubeadm assigns to each service
 * (cmd/kubeadm/app/constants: GetDNSIP, GetAPIServerVirtualIP).
 */
const INDEX_OF = { kubernetes: 1, dns: 10 } as const;

/**
 * The addresses of a built-in service in each network of services, the primary one first. Only that one is in use: the
 * service `kubernetes` and CoreDNS have one address. @throws TypeError for a text that is no network
 */
export function serviceAddressesIn(
  serviceSubnet: string,
  service: keyof typeof INDEX_OF,
): readonly [string, ...string[]] {
  const subnets = subnetsFrom(serviceSubnet);
  if (subnets === undefined)
    throw new TypeError(`${JSON.stringify(serviceSubnet)} is no network of services`);
  const [first, ...others] = subnets.map((subnet) => addressIn(subnet, INDEX_OF[service]));
  return [first ?? '', ...others];
}
