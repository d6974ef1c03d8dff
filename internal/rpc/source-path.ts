import { isIPv6 } from 'node:net';
import { ipv6Groups, plainAddress } from '../endpoint/index.ts';

/**
 * The networks from which a connection comes, the largest first. IPv4: /16, /24 and the address; IPv6: /32,
 * /48 and /64, the smallest network that one holder has (RFC 6177). Names of different widths are never the
 * same.
 */
export type SourcePath = readonly [organization: string, site: string, holder: string, ...relayed: string[]];

/**
 * The path of a client behind a relay: the networks of the relay, then those of the client within the share of the
 * relay. The relay announced the client, so the first three networks are proved, and the others are only claimed.
 */
export function relayedPathOf(relay: string, client: string): SourcePath {
  const within = sourcePathOf(client).map((network) => `${relay} for ${network}`);
  return [...sourcePathOf(relay), ...within];
}

/**
 * The networks that contain the peer address of a socket, the widest first. Nobody can forge the address, because a
 * connection exists only once its sender has received packets there.
 */
export function sourcePathOf(address: string): SourcePath {
  const plain = plainAddress(address);
  if (!isIPv6(plain)) {
    const parts = plain.split('.');
    return [`${parts.slice(0, 2).join('.')}/16`, `${parts.slice(0, 3).join('.')}/24`, plain];
  }
  const groups = ipv6Groups(plain);
  const prefix = (count: number): string => `${groups.slice(0, count).join(':')}/${count * 16}`;
  return [prefix(2), prefix(3), prefix(4)];
}
