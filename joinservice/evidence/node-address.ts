import { BlockList, isIP } from 'node:net';
import { hostOf } from '../../internal/endpoint/index.ts';
import type { SettingsRecord } from '../../internal/records/index.ts';

/** Nobody's for others: unspecified, a machine's own for itself, link-local, multicast and reserved (RFC 6890). */
const NOBODYS = {
  4: listOf('0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'),
  // With those that are IPv4 addresses in another form. A list of its own: to Node every IPv4 address is one of them.
  6: listOf('::/127', '::ffff:0:0/96', 'fe80::/10', 'ff00::/8'),
};

/** The one way that an address is written (RFC 5952 for IPv6); undefined for what is none, or has a port or zone. */
export function canonicalAddress(text: string): string | undefined {
  if (isIP(text) === 4) return text;
  if (isIP(text) !== 6 || text.includes('%')) return undefined;
  return new URL(`http://[${text}]/`).hostname.slice(1, -1);
}

/**
 * Why an address cannot be a machine's own; undefined when it can. A kubelet's serving certificate has it in it and is of
 * the authority that the API servers' are of: whoever had one for the API's address could pass for it. `names`: of the
 * API, which a control plane may have for its own.
 */
export function whyAddressReserved(
  address: string,
  settings: Pick<SettingsRecord, 'serviceSubnet' | 'podSubnet' | 'apiServerSans' | 'apiEndpoint'>,
  { servesApi }: { readonly servesApi: boolean },
): string | undefined {
  const { serviceSubnet, podSubnet, apiServerSans, apiEndpoint } = settings;
  if (isIn(NOBODYS[isIP(address) === 6 ? 6 : 4], address))
    return 'it is no address of one machine for others';
  for (const [what, subnet] of [
    ['services', serviceSubnet],
    ['pods', podSubnet],
  ] as const)
    if (isIn(listOf(subnet), address)) return `it is in the network of ${what}, ${subnet}`;
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
