import { isIP } from 'node:net';

/** A DNS label of lower-case letters (RFC 1123, section 2.1): names of nodes, clusters and namespaces. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A DNS name of lower-case letters: labels separated by dots, at most 253 characters. */
export const DNS_NAME =
  /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;

/** A host and a TCP port. An IPv6 address has no brackets here. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

const DNS_NAME_ANY_CASE = new RegExp(DNS_NAME, 'i');

/** Whether a text is a DNS name or an IP address, which a certificate can contain. */
export function isHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  // A text of only digits and dots is a mistyped IP address, not a DNS name.
  return DNS_NAME_ANY_CASE.test(text) && !/^[0-9.]+$/.test(text);
}

/** A host as URLs contain it (RFC 3986 §3.2.2): an IPv6 address is in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** The reverse of `urlHost`: removes the brackets that `URL.hostname` has around an IPv6 address. */
export function plainHost(host: string): string {
  return host.replace(/^\[|\]$/g, '');
}

/** "HOST:PORT", IPv6 in brackets: the form that gRPC, URLs and Kubernetes take. */
export function formatEndpoint(host: string, port: number): string {
  return `${urlHost(host)}:${port}`;
}

/** Splits the output of `formatEndpoint`: "[2001:db8::1]:2379" gives host "2001:db8::1" and port 2379. */
export function splitEndpoint(endpoint: string): HostPort {
  const colon = endpoint.lastIndexOf(':');
  return { host: plainHost(endpoint.slice(0, colon)), port: Number(endpoint.slice(colon + 1)) };
}

/** The host of "HOST:PORT". An IPv6 address is returned without brackets, as certificates contain it. */
export function hostOf(endpoint: string): string {
  return splitEndpoint(endpoint).host;
}

/**
 * Reads an endpoint as a person writes it: "host", "host:port", "2001:db8::1" or "[2001:db8::1]:port".
 * @returns "host:port" with IPv6 in brackets; undefined for anything else
 */
export function parseEndpoint(text: string, defaultPort: number): string | undefined {
  if (isIP(text) === 6) return formatEndpoint(text, defaultPort);
  const bracketed = /^\[([^\]]+)\](?::([0-9]{1,5}))?$/.exec(text);
  const plain = /^([^:[\]]+)(?::([0-9]{1,5}))?$/.exec(text);
  const [host = '', portText = String(defaultPort)] = (bracketed ?? plain)?.slice(1) ?? [];
  const port = Number(portText);
  if (port < 1 || port > 65_535) return undefined;
  if (bracketed !== null && isIP(host) !== 6) return undefined;
  return isHost(host) ? formatEndpoint(host, port) : undefined;
}
