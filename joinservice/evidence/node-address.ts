import { BlockList, isIP } from 'node:net';
import { familiesOf } from '../../internal/config/index.ts';
import { canonicalAddress, familyOf, hostOf } from '../../internal/endpoint/index.ts';
import type { SettingsRecord } from '../../internal/records/index.ts';

/** Addresses at which no other machine can be reached: unspecified, loopback, link-local, multicast, reserved (RFC 6890). */
const UNREACHABLE = {
  4: listOf('0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'),
  // These lists include IPv4-mapped addresses. IPv4 and IPv6 have separate lists, because in Node.js every
  // IPv4 address matches the subnet of IPv4-mapped addresses.
  6: listOf('::/127', '::ffff:0:0/96', 'fe80::/10', 'ff00::/8'),
};

/**
 * The reason why a machine cannot have this address; undefined if it can. The kubelet's serving certificate contains
 * the address and is issued by the CA of the API servers. So a machine with the address of the API could impersonate
 * the API.
 * @param options `servesApi`: a control plane may have an address of the API
 */
export function whyAddressReserved(
  address: string,
  settings: Pick<SettingsRecord, 'serviceSubnet' | 'podSubnet' | 'apiServerSans' | 'apiEndpoint'>,
  { servesApi }: { readonly servesApi: boolean },
): string | undefined {
  const { serviceSubnet, podSubnet, apiServerSans, apiEndpoint } = settings;
  if (isIn(UNREACHABLE[isIP(address) === 6 ? 6 : 4], address)) return 'other machines cannot reach it';
  const [primary, ...others] = familiesOf(serviceSubnet);
  // A cluster without IPv6 may be older than this rule, and have a node with another network of pods and an IPv6 address.
  if ((primary === 'IPv6' || others.length > 0) && familyOf(address) !== primary)
    return `nodes of this cluster are reached by ${primary}, the family of its first networks`;
  for (const [what, subnet] of [
    ['service', serviceSubnet],
    ['pod', podSubnet],
  ] as const)
    if (isIn(listOf(...subnet.split(',')), address)) return `it is in the ${what} subnet ${subnet}`;
  const apis = [...apiServerSans, ...(apiEndpoint === undefined ? [] : [hostOf(apiEndpoint)])];
  if (!servesApi && apis.some((each) => canonicalAddress(each) === address))
    return 'it is an address of the Kubernetes API';
  return undefined;
}

function listOf(...subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', prefix = ''] = subnet.split('/');
    list.addSubnet(net, Number(prefix), isIP(net) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

function isIn(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}
