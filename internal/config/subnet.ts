import { isIP } from 'node:net';

/** An IPv4 range: first and last address as numbers. */
export interface Subnet {
  readonly text: string;
  readonly prefix: number;
  readonly first: number;
  readonly last: number;
}

/** Parses an IPv4 network in CIDR notation ("198.19.0.0/17"); undefined for any other text. */
export function subnetFrom(text: string): Subnet | undefined {
  const match = /^([0-9.]+)\/([0-9]{1,2})$/.exec(text);
  const [address = '', bits = ''] = match?.slice(1) ?? [];
  const prefix = Number(bits);
  if (isIP(address) !== 4 || prefix > 32) return undefined;
  const value = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - prefix);
  if (value % size !== 0) return undefined;
  return { text, prefix, first: value, last: value + size - 1 };
}

/** Whether two ranges have common addresses. */
export function isOverlapping(a: Subnet, b: Subnet): boolean {
  return a.first <= b.last && b.first <= a.last;
}
