/** Ground layer: "host:port" with IPv6, written and read in one place, and the table of all ports. */
export { DNS_LABEL, DNS_NAME } from './endpoint.ts';
export {
  formatEndpoint,
  hostOf,
  isHost,
  parseEndpoint,
  splitEndpoint,
  plainHost,
  urlHost,
  type HostPort,
} from './endpoint.ts';
export {
  canonicalAddress,
  familyOf,
  holderOf,
  type IpFamily,
  ipv6FromHex,
  ipv6Groups,
  ipv6Hex,
  listenHost,
  plainAddress,
} from './ip-address.ts';
export { PORTS, VXLAN_PORT, WIREGUARD_PORTS } from './ports.ts';
export { encodeProxyHeader, readProxyHeader } from './proxy-header.ts';
