import { isIP, isIPv6 } from 'node:net';

/** The family of an IP address or network. */
export type IpFamily = 'IPv4' | 'IPv6';

/** The family of an IP address. `address`: an IP address without port and zone. */
export function familyOf(address: string): IpFamily {
  return isIPv6(address) ? 'IPv6' : 'IPv4';
}

/**
 * The peer address of a socket as people write it: a socket that accepts both families shows an IPv4 peer as "::ffff:192.0.2.1"
 * (RFC 4291, section 2.5.5.2), and a link-local peer with its interface, "fe80::1%eth0".
 */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '').replace(/%.*$/, '');
}

/** The smallest network that one holder has, for limits: an IPv4 address or an IPv6 /64 (RFC 6177). `address`: of a peer. */
export function holderOf(address: string): string {
  const plain = plainAddress(address);
  return isIPv6(plain) ? ipv6Groups(plain).slice(0, 4).join(':') : plain;
}

/**
 * The canonical form of an IP address (RFC 5952 for IPv6); undefined for other text, including an address with a port or zone.
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIP(text) === 4) return text;
  return isIP(text) === 6 && !text.includes('%') ? shortest(text) : undefined;
}

/** The eight groups of an IPv6 address without a zone, as RFC 5952 writes them: lower case, no leading zeros. */
export function ipv6Groups(address: string): readonly string[] {
  const [left = '', right] = shortest(address).split('::');
  const [before, after] = [groupsOf(left), groupsOf(right ?? '')];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after];
}

/** The 32 hexadecimal digits of an IPv6 address without a zone. */
export function ipv6Hex(address: string): string {
  return ipv6Groups(address)
    .map((group) => group.padStart(4, '0'))
    .join('');
}

/** The IPv6 address with these 32 hexadecimal digits, as RFC 5952 writes it. */
export function ipv6FromHex(hex: string): string {
  return shortest((hex.match(/.{4}/g) ?? []).join(':'));
}

/**
 * Where a service of a node listens for other machines: at all addresses, because in clouds the address of the node may not be
 * configured on this machine. `::` accepts IPv4 connections too. A node with an IPv4 address does not listen at IPv6 addresses,
 * which its owner may not have thought of in the firewall.
 * @param nodeAddress the address at which other nodes reach this one
 */
export function listenHost(nodeAddress: string): '::' | '0.0.0.0' {
  return isIPv6(nodeAddress) ? '::' : '0.0.0.0';
}

/** The URL parser writes IPv6 addresses as RFC 5952 does, except that an IPv4 address at the end becomes two groups. */
function shortest(ipv6: string): string {
  return new URL(`http://[${ipv6}]/`).hostname.slice(1, -1);
}

function groupsOf(text: string): readonly string[] {
  return text === '' ? [] : text.split(':');
}
