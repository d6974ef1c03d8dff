import { isIP } from 'node:net';
import { familyOf, ipv6FromHex, ipv6Hex, type IpFamily } from '../endpoint/index.ts';

const BITS = { IPv4: 32, IPv6: 128 } as const;

/** An IP range: first and last address as numbers. */
export interface Subnet {
  readonly text: string;
  readonly family: IpFamily;
  readonly prefix: number;
  /** Whether the text has the address of a host, like 198.19.0.1/17. */
  readonly hasHostBits: boolean;
  readonly first: bigint;
  readonly last: bigint;
}

/** Parses a network in CIDR notation ("198.19.0.0/17", "2001:2:0:8000::/56"), and ignores host bits; undefined for any other text. */
function subnetFrom(text: string): Subnet | undefined {
  const match = /^([0-9a-fA-F.:]+)\/([0-9]{1,3})$/.exec(text);
  const [address = '', bits = ''] = match?.slice(1) ?? [];
  const family = familyOf(address);
  const prefix = Number(bits);
  if (isIP(address) === 0 || prefix > BITS[family]) return undefined;
  const size = 1n << BigInt(BITS[family] - prefix);
  const value = numberOf(address);
  const first = value - (value % size);
  return { text, family, prefix, hasHostBits: first !== value, first, last: first + size - 1n };
}

/**
 * Parses the networks of pods or of services: one network, or two that are separated by a comma (as kubeadm and Kubernetes
 * write them). The first one is the primary network. undefined for any other text.
 */
export function subnetsFrom(text: string): readonly [Subnet, ...Subnet[]] | undefined {
  const [first, second, ...others] = text.split(',').map(subnetFrom);
  if (first === undefined || others.length > 0) return undefined;
  if (second === undefined) return text.includes(',') ? undefined : [first];
  return [first, second];
}

/** The families of the networks of pods or of services, the primary one first; empty for an invalid text. */
export function familiesOf(text: string): readonly IpFamily[] {
  return (subnetsFrom(text) ?? []).map(({ family }) => family);
}

/** Whether two ranges have common addresses. */
export function isOverlapping(a: Subnet, b: Subnet): boolean {
  return a.family === b.family && a.first <= b.last && b.first <= a.last;
}

/** The address with this index in a range, as RFC 5952 writes it. */
export function addressIn({ family, first }: Subnet, index: number): string {
  const value = first + BigInt(index);
  if (family === 'IPv4') return [24n, 16n, 8n, 0n].map((bits) => String((value >> bits) & 0xffn)).join('.');
  return ipv6FromHex(value.toString(16).padStart(32, '0'));
}

function numberOf(address: string): bigint {
  if (isIP(address) === 4) return address.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  return BigInt(`0x${ipv6Hex(address)}`);
}
